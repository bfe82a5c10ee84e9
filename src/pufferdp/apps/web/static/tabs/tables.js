// Tables: several questions at once, for each person, day or group, on one guarantee.

import { el, field, fill, select, slider } from "../dom.js";
import { makePublication } from "../publication.js";
import { ADVERSARIES } from "./plan.js";

const QUESTIONS = [
  ["histogram", "How often each state occurs"],
  ["frequency", "The share of each state"],
  ["count", "How often one state occurs"],
  ["sum", "The sum of the numbers"],
  ["mean", "The mean of the numbers"],
  ["variance", "The variance of the numbers"],
  ["median", "The median"],
  ["quantile", "Quantiles"],
  ["min", "The smallest number"],
  ["max", "The largest number"],
  ["transitions", "How often one state follows another"],
  ["cross", "A cross table of two columns"],
];
const PERIODS = [["", "all times together"], ["hour", "hour"], ["day", "day"], ["week", "week"]];

export async function make(panel, shared) {
  let tab = null;
  const change = () => tab?.update();
  const epsilon = slider({ label: "ε of the whole table", low: 0.01, high: 10, value: 1, log: true, change, hint: "All questions and all rows together", words: (v) => `epsilon ${v}`, refusals: "epsilon" });
  const adversary = select(ADVERSARIES, "bdp", change);
  const state = select([], undefined, change);
  const levels = el("input", { type: "text", value: "0.25,0.5,0.75", on: { change } });
  state.setAttribute("aria-label", "which state");
  levels.setAttribute("aria-label", "which quantiles");
  const extras = { count: state, quantile: levels };
  const boxes = QUESTIONS.map(([key, words]) => {
    const box = el("input", { type: "checkbox", value: key, checked: key === "histogram", on: { change } });
    const share = el("input", { type: "number", min: 0, step: "any", value: 1, on: { change } });
    share.setAttribute("aria-label", `share of: ${words}`);
    const more = extras[key] ? el("div", { className: "more" }, extras[key]) : null;
    const label = el("label", { text: words });
    box.id = label.htmlFor = `question-${key}`;
    return { key, box, share, more, root: el("li", {}, box, label, share, more) };
  });
  const low = el("input", { type: "number", step: "any", className: "short", on: { change } });
  const high = el("input", { type: "number", step: "any", className: "short", on: { change } });
  low.setAttribute("aria-label", "lowest number");
  high.setAttribute("aria-label", "highest number");
  const clip = el("div", { className: "field", role: "group", "aria-label": "Range of the numbers", "data-refusals": "clip|lower clip|upper clip" }, el("span", { text: "Numbers are cut to" }), el("div", { className: "row" }, low, " to ", high));
  const who = select([], undefined, change);
  const period = select(PERIODS, "day", change);
  const chosen = () => boxes.filter(({ box }) => box.checked);
  const spelled = ({ key }) => (key === "count" ? `count:${state.value}` : key === "quantile" ? `quantile:${levels.value.trim()}` : key);

  tab = makePublication(panel, shared, {
    heading: "Several questions, a row for each group",
    question: [
      el("div", { className: "field", role: "group", "aria-label": "What is published, and which share of the guarantee it gets", "data-refusals": "query|split|quantile|there is no query" }, el("span", { text: "What is published? On the right: its share" }), el("ul", { className: "questions" }, ...boxes.map(({ root }) => root))),
      clip,
      field("A row for each", who, "People, or a column that is public", "per|a table per"),
      field("And for each", period, "Days and hours by the column under “Order”", "the period"),
    ],
    guarantee: [epsilon.root, field("Adversary's background knowledge", adversary)],
    plan: "table_plan", publish: "table", button: "Release the table", pairs: true,
    explains: "Draws fresh noise once for every number of the table. Exact numbers are never shown or stored.",
    names: { "table.csv": "Table (CSV)", "release.json": "Table and certificate (JSON)" },
    fit(source) {
      fill(state, (source.model?.states ?? []).map((name) => [name, name]), state.value);
      const names = source.file?.columns ?? [];
      fill(who, [["", "all together"], ["person", "person (the column under “People”)"], ...names.map((name) => [name, name])], who.value);
      const numbers = chosen().some(({ key }) => ["sum", "mean", "variance", "median", "quantile", "min", "max"].includes(key));
      clip.hidden = !numbers || Boolean(source.model?.numbers);
      for (const { box, share, more } of boxes) {
        share.hidden = !box.checked || chosen().length < 2;
        if (more) more.hidden = !box.checked;
      }
      period.disabled = Boolean(source.file) && !source.order.value;
    },
    asked() {
      const shares = chosen().map(({ share }) => Number(share.value));
      return {
        queries: chosen().map(spelled),
        per: [who.value, period.disabled ? "" : period.value].filter(Boolean),
        split: shares.length > 1 && shares.some((share) => share !== shares[0]) ? shares : null,
        clip: !clip.hidden && low.value !== "" && high.value !== "" ? [Number(low.value), Number(high.value)] : null,
        epsilon: epsilon.value, adversary: adversary.value,
      };
    },
  });
  return tab;
}
