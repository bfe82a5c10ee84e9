// Plan and release: which mechanism, what error, and then the answer itself.

import { Budgets } from "../budgets.js";
import { ask, Latest, working } from "../calls.js";
import { draw, theme } from "../charts.js";
import { busy, clear, codeBox, downloads, el, error, field, fieldError, fill, kept, note, number, select, slider, table } from "../dom.js";
import { Source } from "../source.js";

export const ADVERSARIES = [
  ["bdp", "may know any other records"],
  ["pufferfish", "knows no record"],
  ["dp", "knows all other records"],
];
const QUERIES = [
  ["histogram", "How often does each state occur?"],
  ["frequency", "Which share of the time is each state?"],
  ["count", "How often does one state occur?"],
  ["sum", "What do the numbers add up to?"],
  ["mean", "What is the mean of the numbers?"],
  ["variance", "What is the variance of the numbers?"],
];

export async function make(panel, shared) {
  const latest = new Latest(), curve = new Latest();
  let shown = null, curveOf = "", drawn = "";

  const query = select(QUERIES, "histogram", () => ask_());
  const state = select([], undefined, () => ask_());
  const low = el("input", { type: "number", step: "any", className: "short", on: { change: () => ask_() } });
  const high = el("input", { type: "number", step: "any", className: "short", on: { change: () => ask_() } });
  low.setAttribute("aria-label", "lowest number");
  high.setAttribute("aria-label", "highest number");
  const length = el("input", { type: "number", min: 1, value: 2016, on: { input: () => ask_() } });
  const idColumn = select([], undefined, () => ask_());
  const epsilon = slider({
    label: "ε, how much may leak about one record", low: 0.01, high: 10, value: 1, log: true, change: () => ask_(),
    hint: "Smaller hides more and errs more. 1 is usual.", words: (v) => `epsilon ${v}`, refusals: "epsilon",
  });
  const adversary = select(ADVERSARIES, "bdp", () => ask_());
  const stateField = field("State", state), lengthField = field("How many records will there be?", length, undefined, "length"), idField = field("Column that names the record", idColumn);
  const clipField = el("div", { className: "field", role: "group", "aria-label": "Range of the numbers", "data-refusals": "clip|lower clip|upper clip|sum|mean" }, el("span", { text: "Numbers are cut to" }), el("div", { className: "row" }, low, " to ", high));

  const headline = el("div", { className: "headline", "aria-live": "polite" }, note("computing …"));
  const chart = el("div", { className: "chart" }), mechanisms = el("div"), curveChart = el("div", { className: "chart" });
  const curveCard = el("details", { className: "card", on: { toggle: () => drawCurve() } }, el("summary", { text: "How does the error change with ε?" }), curveChart);
  const released = el("div", { "aria-live": "polite" });
  const budgets = new Budgets(shared);
  const go = el("button", { type: "button", className: "main", text: "Release the answer", on: { click: () => release() } });
  const releaseCard = el("section", { className: "card" }, el("h2", { text: "Release" }), note("Draws fresh noise once and publishes one answer. The exact answer is never shown or stored."), budgets.root, go, released);
  const answer = el("section", { className: "card answer" }, headline, chart, mechanisms);
  const guarantee = el("fieldset", { className: "card bar" }, el("legend", { text: "4 · Guarantee" }), epsilon.root, field("Adversary's background knowledge", adversary));
  const code = codeBox();
  const source = new Source(shared, { change: () => ask_() });

  panel.append(
    el(
      "div", { className: "tab-body" },
      el(
        "form", { className: "asks", on: { submit: (event) => event.preventDefault() } },
        el("h2", { text: "May I publish this, and with what error?" }),
        source.root,
        el("fieldset", {}, el("legend", { text: "3 · Question" }), field("What is published?", query), stateField, clipField, lengthField, idField),
      ),
      el("div", { className: "tells" }, guarantee, answer, curveCard, releaseCard, code.root),
    ),
  );

  function asked() {
    const model = source.model;
    const kind = query.value;
    const clip = !clipField.hidden && low.value !== "" && high.value !== "" ? [Number(low.value), Number(high.value)] : null;
    return {
      model: model.key,
      data: source.file?.key ?? null,
      reading: source.reading,
      id: idField.hidden ? null : idColumn.value || null,
      query: kind === "count" ? `count:${state.value}` : kind,
      clip,
      epsilon: epsilon.value,
      adversary: adversary.value,
      length: lengthField.hidden ? null : Number(length.value) || null,
      theme: theme(),
    };
  }

  function fit() {
    const model = source.model;
    const names = model?.states ?? [];
    const kept = state.value;
    fill(state, names.map((name) => [name, name]), kept);
    const numbers = ["sum", "mean", "variance"].includes(query.value);
    stateField.hidden = query.value !== "count";
    clipField.hidden = !numbers || Boolean(model?.numbers);
    lengthField.hidden = Boolean(source.file) || !model?.chained;
    idField.hidden = !source.file || !model || model.chained;
    if (!idField.hidden) fill(idColumn, [["", "rows are in the model's order"], ...source.file.columns.map((c) => [c, c])], idColumn.value);
    releaseCard.hidden = !source.file;
  }

  async function ask_() {
    fit();
    if (!source.model) {
      latest.cancel();
      clear(headline, source.told.wrong ? error(source.told.words) : note(source.told.words));
      // Nothing of the file before stays beside the words about this one.
      for (const node of [mechanisms, chart, curveChart, released]) clear(node);
      curveOf = "";
      code.hide();
      go.disabled = true;
      return;
    }
    const slow = setTimeout(() => busy(answer, true), 120);
    try {
      const found = await latest.ask("plan", asked(), { part: (part) => show(part) });
      if (found) show(found);
    } catch (problem) {
      shown = null;
      go.disabled = true;
      fieldError(panel, problem.message);
      clear(headline, error(problem.message));
      clear(mechanisms);
      clear(chart);
    } finally {
      clearTimeout(slow);
      busy(answer, false);
    }
  }

  function show(plan) {
    shown = plan;
    fieldError(panel);
    go.disabled = false;
    clear(headline, ...verdict(plan));
    clear(mechanisms, ...listed(plan));
    const picture = JSON.stringify(plan.chart);
    if (picture !== drawn || !chart.firstChild) draw(chart, plan.chart);
    drawn = picture;
    code.show(plan.commands);
    drawCurve();
    answer.dataset.epsilon = plan.epsilon; // what is on the screen, for measurements
  }

  async function drawCurve() {
    if (!curveCard.open || !source.model) return;
    const { epsilon: _, ...of } = asked();
    if (JSON.stringify(of) === curveOf) return;
    curveOf = JSON.stringify(of);
    clear(curveChart, note("computing …"));
    try {
      const found = await curve.ask("errors", asked(), {});
      if (found) await draw(curveChart, found.chart);
    } catch (problem) {
      clear(curveChart, error(problem.message));
    }
  }

  async function release() {
    go.disabled = true;
    const asking = { ...asked(), mechanism: null, dataset: budgets.name };
    try {
      const made = await working(released, (hear, signal) => ask("release", asking, hear, signal));
      clear(released, ...certified(made));
      draw(released.querySelector(".chart"), made.chart);
      shared.changed?.();
    } catch (problem) {
      clear(released, error(budgets.words(problem, asking.dataset)));
    } finally {
      go.disabled = false;
    }
  }

  shared.changed = () => budgets.read();
  source.read();
  return { enter: () => budgets.read(), redraw: () => ask_() };
}

const percent = (x) => `${number(Math.round(x * 1000) / 10)} %`;

// The question a newcomer has, answered first, in the words of the library.
function verdict(plan) {
  const [first, ...more] = plan.verdict;
  return [
    el("p", { className: "verdict" }, el("strong", { text: first })),
    el("p", {}, ...more.map((sentence) => `${sentence} `), plan.best ? `Best mechanism: ${plan.best}.` : "", plan.waiting?.length ? " Slower mechanisms are still being tried …" : ""),
    el("p", { className: "guarantee", text: plan.guarantee }),
  ];
}

function listed(plan) {
  const tried = plan.candidates.filter((c) => c.scale !== null);
  const others = plan.candidates.filter((c) => c.scale === null);
  const rows = tried.map((c) => ({
    className: c.mechanism === plan.best ? "best" : c.applies ? "" : "off",
    cells: [
      c.mechanism,
      c.mechanism === plan.best ? "✓ best" : c.applies ? "✓ applies" : el("span", {}, "✗ does not", el("small", { text: c.reason })),
      number(c.scale), number(c.expected_l1_error), number(c.accuracy?.alpha),
    ],
  }));
  const sure = percent(1 - (tried[0]?.accuracy?.beta ?? 0.05));
  const caption = "Mechanisms, the best first";
  const out = [table(["Mechanism", "Applies", "Noise scale", "Expected error, added up", `${sure} error bound, each`], rows, caption, 2)];
  if (others.length)
    out.push(el("details", {}, el("summary", { text: `${others.length} more do not apply here: why` }), el("dl", {}, ...others.flatMap((c) => [el("dt", { text: c.mechanism }), el("dd", { text: c.reason })]))));
  return out;
}

// The guarantee, each of its assumptions and warnings on a line of its own.
const statement = (text) => `Guarantee: ${text}`.split(/ (?=Assumption: |Warning: )/).map((words) => el("p", { text: words }));

function certified(made) {
  const c = made.certificate;
  const list = (v) => (Array.isArray(v) ? v : [v]);
  const range = (ends, n) => `${number(list(ends.low)[n])} to ${number(list(ends.high)[n])}`;
  const sure = percent(made.intervals.probability);
  const several = c.labels.length > 1;
  // A model that hardly explains the answer leaves the posterior out, and one without checks does not show it.
  const explained = made.model_estimate && list(made.model_estimate.mean).some((v) => v !== null);
  const estimate = explained && !made.hidden_estimate ? made.model_estimate : null;
  const rows = c.labels.map((label, n) => ({
    cells: [
      label, number(list(made.answer)[n]), range(made.intervals.each, n),
      ...(several ? [range(made.intervals.all, n)] : []),
      number(list(made.estimate)[n]),
      ...(estimate ? [range(estimate, n)] : []),
    ],
  }));
  const head = [
    c.query.name, "Released", `${sure} interval`, ...(several ? [`${sure} simultaneous interval`] : []), "Adjusted",
    ...(estimate ? [`${percent(estimate.probability)} credible interval, if the model holds`] : []),
  ];
  const where = c.ledger ? `Charged to ${c.ledger.dataset}, row ${c.ledger.position} of the ledger.` : "Not charged to any ledger: count your releases yourself.";
  return [
    el("h3", { text: "Released" }),
    table(head, rows, "The released answer; its intervals follow from the noise alone"),
    ...(explained && made.hidden_estimate ? [el("p", { text: `No model-based estimate shown: ${made.hidden_estimate}.` })] : []),
    el("div", { className: "chart" }),
    ...statement(c.guarantee.statement),
    ...c.warnings.map((words) => el("p", { className: "warning", text: words })),
    el("p", { className: "charged", text: where }),
    ...kept(made.kept),
    downloads(made.made, { "report.html": "Report (HTML)", "release.json": "Answer and certificate (JSON)" }),
    el("details", {}, el("summary", { text: "The certificate" }), el("pre", { tabIndex: 0, text: made.written })),
  ];
}
