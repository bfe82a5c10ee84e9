// A stream that is released step by step: what it leaks about the record of each step, or what a step may spend.

import { Latest } from "../calls.js";
import { theme } from "../charts.js";
import { busy, clear, codeBox, el, error, field, fieldError, note, select } from "../dom.js";
import { showPage } from "../result.js";
import { Source } from "../source.js";
import { ADVERSARIES } from "./plan.js";

const ASKS = [["losses", "I spend this much: what leaks?"], ["target", "This much may leak: what may I spend?"]];

export async function make(panel, shared) {
  const latest = new Latest();
  const change = () => update();
  const asks = select(ASKS, "losses", change);
  const losses = el("input", { type: "text", value: "0.1", on: { change } });
  const target = el("input", { type: "text", value: "1", inputMode: "decimal", on: { change } });
  const length = el("input", { type: "number", min: 1, value: 288, on: { change } });
  const adversary = select(ADVERSARIES, "bdp", change);
  const lossesField = field("DP ε of each step", losses, "One number for all steps, or one for each: 0.1,0.2,0.1", "epsilon|stream|the loss|losses");
  const targetField = field("Leakage that is allowed", target, undefined, "target");
  const answer = el("section", { className: "card answer", "aria-live": "polite" }, note("computing …"));
  const code = codeBox();
  const source = new Source(shared, { models: true, change });
  const form = el(
    "form", { className: "asks", on: { submit: (event) => event.preventDefault() } },
    el("h2", { text: "What does a stream leak, step by step?" }),
    source.root,
    el("fieldset", {}, el("legend", { text: "2 · The stream" }), field("Question", asks), lossesField, targetField, field("Steps", length, "Empty: the stream has no end", "length"), field("Adversary's background knowledge", adversary)),
  );
  panel.append(el("div", { className: "tab-body" }, form, el("div", { className: "tells" }, answer, code.root)));

  async function update() {
    lossesField.hidden = asks.value !== "losses";
    targetField.hidden = asks.value !== "target";
    if (!source.model) {
      latest.cancel();
      code.hide();
      return clear(answer, source.told.wrong ? error(source.told.words) : note(source.told.words));
    }
    const numbers = losses.value.split(",").map(Number);
    if (!lossesField.hidden && !numbers.every((n) => Number.isFinite(n) && n > 0)) return refuse(`losses are “${losses.value.trim()}”; they must be numbers above 0, with commas between them`);
    const asked = {
      model: source.model.key, adversary: adversary.value, theme: theme(),
      losses: lossesField.hidden ? null : numbers,
      target: targetField.hidden ? null : Number(target.value),
      length: (!lossesField.hidden && numbers.length > 1) || length.value === "" ? null : Number(length.value),
    };
    const slow = setTimeout(() => busy(answer, true), 150);
    try {
      const found = await latest.ask("stream", asked);
      if (!found) return;
      fieldError(form);
      showPage(answer, found.page);
      code.show(found.commands);
    } catch (problem) {
      refuse(problem.message);
    } finally {
      clearTimeout(slow);
      busy(answer, false);
    }
  }

  function refuse(words) {
    clear(answer, error(words));
    fieldError(form, words);
  }

  source.read();
  return { redraw: update };
}
