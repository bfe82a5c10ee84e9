// What a DP loss leaks under a chain with two states that can be dragged.

import { Latest } from "../calls.js";
import { draw, theme } from "../charts.js";
import { busy, clear, codeBox, el, error, field, fieldError, note, number, safe, select, slider, table } from "../dom.js";
import { Source } from "../source.js";
import { ADVERSARIES } from "./plan.js";

const SIZE = 200, LEAST = 0.02, MOST = 0.98;
const SVG = "http://www.w3.org/2000/svg";

const DRAGGED = { key: "dragged", label: "A chain with two states, to drag", states: ["0", "1"], chained: true, words: "Two states, numbered 0 and 1" };

export async function make(panel, shared) {
  const latest = new Latest();
  const change = () => ask_();
  const words = (v) => `${number(v)} of the time`;
  const first = slider({ label: "State 0 is followed by itself", low: LEAST, high: MOST, value: 0.9, change: () => moved(), words });
  const second = slider({ label: "State 1 is followed by itself", low: LEAST, high: MOST, value: 0.7, change: () => moved(), words });
  const spent = slider({ label: "DP ε that was spent", low: 0.01, high: 10, value: 0.1, log: true, change, hint: "All releases together, with any DP library", words: (v) => `epsilon ${v}` });
  const length = el("input", { type: "number", min: 1, max: 100000, value: 288, on: { input: change } });
  const adversary = select(ADVERSARIES, "bdp", change);
  const headline = el("div", { className: "headline", "aria-live": "polite" }, note("computing …")), chart = el("div", { className: "chart" }), curves = el("div");
  const answer = el("section", { className: "card answer" }, headline, chart, curves);
  const code = codeBox();
  const pad = makePad((a, b) => {
    first.set(a);
    second.set(b);
    ask_();
  });
  const dragged = el("fieldset", {}, el("legend", { text: "The chain" }), pad.root, first.root, second.root);
  const source = new Source(shared, { models: true, own: DRAGGED, change });
  panel.append(
    el(
      "div", { className: "tab-body" },
      el(
        "form", { className: "asks", on: { submit: (event) => event.preventDefault() } },
        el("h2", { text: "What does the DP I spent really give away?" }),
        source.root,
        dragged,
        el("fieldset", {}, el("legend", { text: "2 · What was released" }), spent.root, field("How many records", length, undefined, "length"), field("Adversary's background knowledge", adversary)),
      ),
      el("div", { className: "tells" }, answer, code.root),
    ),
  );

  function moved() {
    pad.set(first.value, second.value);
    ask_();
  }

  async function ask_() {
    const slow = setTimeout(() => busy(answer, true), 150);
    const believed = source.model, own = believed !== DRAGGED;
    dragged.hidden = own;
    if (!believed) {
      clearTimeout(slow);
      latest.cancel();
      clear(headline, source.told.wrong ? error(source.told.words) : note(source.told.words));
      for (const node of [chart, curves]) clear(node);
      return code.hide();
    }
    const of = own ? { model: believed.key, query: believed.chained ? `count:${believed.states.at(-1)}` : null } : { stay: [first.value, second.value] };
    const asked = { ...of, length: believed.chained ? Number(length.value) || 1 : null, dp_epsilon: spent.value, adversary: adversary.value, theme: theme() };
    try {
      const found = await latest.ask("leakage", asked, { part: show });
      if (found) show(found);
    } catch (problem) {
      clear(headline, error(problem.message));
      fieldError(panel, problem.message);
      clear(curves);
      clear(chart);
    } finally {
      clearTimeout(slow);
      busy(answer, false);
    }
  }

  function show(found) {
    const best = found.curves[found.best], times = best / found.spent;
    const said = [el("p", { className: "verdict" }, "DP says ", el("strong", { text: number(found.spent) }), ". Under this model, any such release leaks about one record at most ", el("strong", { text: safe(best) }), times > 1.05 ? `: up to ${number(Math.round(times * 10) / 10)} times as much.` : ": no more.")];
    if (found.exact !== null) said.push(el("p", {}, "Exactly, under this model, for a noisy count of state 1: ", el("strong", { text: safe(found.exact) }), "."));
    if (found.witness) {
      const w = found.witness;
      said.push(el("p", { className: "guarantee", text: `Worst-case adversary: knows ${w.knows}. For this adversary, a noisy count of ${number(w.output)} over ${w.over} is the strongest evidence that ${w.record} is ${w.likelier} and not ${w.other}.` }));
    }
    clear(headline, ...said);
    const rows = Object.entries(found.curves).filter(([, value]) => value !== null).map(([name, value]) => ({ className: name === found.best ? "best" : "", cells: [name + (name === found.best ? "  ✓ best" : ""), safe(value)] }));
    if (found.exact !== null) rows.push({ cells: [`exact, ${found.query} with Laplace noise`, safe(found.exact)] });
    const others = Object.entries(found.reasons);
    clear(curves, table(["Bound", "Leaks at most"], rows, "Leakage under this model, by every curve"), el("details", {}, el("summary", { text: "Bounds that give no number here: why" }), el("dl", {}, ...others.flatMap(([name, why]) => [el("dt", { text: name }), el("dd", { text: why })]))));
    if (found.chart) draw(chart, found.chart);
    code.show(found.commands);
    fieldError(panel);
  }

  await ask_();
  return { redraw: ask_ };
}

// A square: across, how long state 0 stays; up, state 1. The sliders below do the same from the keyboard.
function makePad(change) {
  const make = (tag, attributes) => {
    const node = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    return node;
  };
  const svg = make("svg", { viewBox: `-34 -10 ${SIZE + 44} ${SIZE + 40}`, class: "pad", "aria-hidden": "true" });
  svg.append(make("rect", { width: SIZE, height: SIZE, class: "ground" }));
  // Independent records lie where both rows are the same.
  svg.append(make("line", { x1: 0, y1: 0, x2: SIZE, y2: SIZE, class: "free" }));
  const words = (text, x, y, turn) => {
    const node = make("text", { x, y, "text-anchor": "middle", ...(turn ? { transform: `rotate(-90 ${x} ${y})` } : {}) });
    node.textContent = text;
    svg.append(node);
  };
  words("state 0 stays →", SIZE / 2, SIZE + 18);
  words("state 1 stays →", -14, SIZE / 2, true);
  words("long stays", SIZE - 36, 16);
  words("always changing", 50, SIZE - 8);
  words("independent", SIZE / 2 + 36, SIZE / 2 + 22);
  const handle = make("circle", { r: 9, class: "handle" });
  svg.append(handle);
  const to = (v) => ((v - LEAST) / (MOST - LEAST)) * SIZE;
  const from = (x) => Number((LEAST + (Math.min(Math.max(x, 0), SIZE) / SIZE) * (MOST - LEAST)).toFixed(2));
  const set = (a, b) => {
    handle.setAttribute("cx", to(a));
    handle.setAttribute("cy", SIZE - to(b));
  };
  set(0.9, 0.7);
  const drag = (event) => {
    if (event.type === "pointermove" && !svg.hasPointerCapture(event.pointerId)) return;
    if (event.type === "pointerdown") svg.setPointerCapture(event.pointerId);
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    const a = from(at.x), b = from(SIZE - at.y);
    set(a, b);
    change(a, b);
  };
  svg.addEventListener("pointerdown", drag);
  svg.addEventListener("pointermove", drag);
  return { root: el("div", { className: "field" }, el("span", { text: "Drag the point, or use the sliders" }), svg), set };
}
