// A mechanism under attack: what it leaks at least, exactly and at most.

import { ask, working } from "../calls.js";
import { theme } from "../charts.js";
import { clear, codeBox, downloads, el, error, field, fieldError, fill, note, select } from "../dom.js";
import { showPage } from "../result.js";
import { Source } from "../source.js";
import { ADVERSARIES } from "./plan.js";

const MECHANISMS = [
  ["laplace", "A count with Laplace noise"],
  ["flip", "A series with flipped records (two states)"],
  ["redact", "A series with one record redacted"],
];

export async function make(panel, shared) {
  const fit = () => {
    for (const [node, kind] of [[stateField, "laplace"], [claimField, "laplace"], [flipField, "flip"], [rowField, "redact"], [epsilonField, "redact"]]) node.hidden = mechanism.value !== kind;
    fill(state, (source.model?.states ?? []).map((name) => [name, name]), state.value);
    lengthField.hidden = !source.model?.chained;
    go.disabled = !source.model;
    if (!source.model) clear(answer, source.told.wrong ? error(source.told.words) : note(source.told.words));
  };
  const mechanism = select(MECHANISMS, "laplace", () => fit());
  const text = (value) => el("input", { type: "text", value });
  const state = select([], undefined, () => {}), claim = text("1"), flips = text("0.2,0.2"), row = text("5"), epsilon = text("1"), length = text("20");
  const stateField = field("Count of", state), claimField = field("DP ε that it claims", claim, undefined, "dp-epsilon|a claim");
  const flipField = field("How often each state flips", flips, "0.2,0.2", "mechanism|flip"), rowField = field("Row that is redacted", row, undefined, "row|private"), epsilonField = field("ε of the redaction", epsilon, undefined, "epsilon");
  const lengthField = field("How many records", length, "Small numbers are attacked best", "length");
  const seconds = select([["5", "5 seconds"], ["15", "15 seconds"], ["60", "a minute"]], "5", () => {});
  const adversary = select(ADVERSARIES, "bdp", () => {});
  const answer = el("section", { className: "card answer", "aria-live": "polite" }, note("The attack runs when you start it. What it proves holds; what it does not find may still leak."));
  const go = el("button", { type: "button", className: "main", text: "Attack it", on: { click: () => audit() } });
  const code = codeBox();
  const source = new Source(shared, { models: true, change: () => fit() });
  const form = el(
    "form", { className: "asks", on: { submit: (event) => event.preventDefault() } },
    el("h2", { text: "Does it leak more than it claims?" }),
    source.root,
    el("fieldset", {}, el("legend", { text: "2 · The mechanism" }), field("Mechanism", mechanism, "Your own code is audited by the command line"), stateField, claimField, flipField, rowField, epsilonField, lengthField),
    el("fieldset", {}, el("legend", { text: "3 · The attack" }), field("Adversary's background knowledge", adversary), field("Time", seconds), go),
  );
  panel.append(el("div", { className: "tab-body" }, form, el("div", { className: "tells" }, answer, code.root)));

  const spelled = { laplace: () => `laplace:count:${state.value}`, flip: () => `flip:${flips.value.trim()}`, redact: () => `redact:${row.value.trim()}:${epsilon.value.trim()}` };

  async function audit() {
    go.disabled = true;
    const asked = {
      model: source.model.key, mechanism: spelled[mechanism.value](), adversary: adversary.value, seconds: Number(seconds.value), theme: theme(),
      dp_epsilon: mechanism.value === "laplace" ? Number(claim.value) : null, length: lengthField.hidden || !length.value.trim() ? null : Number(length.value),
    };
    try {
      const found = await working(answer, (hear, signal) => ask("audit", asked, hear, signal));
      fieldError(form);
      showPage(answer, found.page, downloads(found.made, { "audit.json": "Audit (JSON)", "report.html": "Report (HTML)" }));
      if (found.refuted) answer.prepend(el("p", { className: "verdict bad" }, el("strong", { text: "✗ The claim is proved wrong." })));
      code.show(found.commands);
    } catch (problem) {
      clear(answer, error(problem.message));
      fieldError(form, problem.message);
    } finally {
      go.disabled = false;
    }
  }

  source.read();
  return {};
}
