// What the tabs that publish have in common: data, model, question and guarantee; a plan; then one charged release.

import { Budgets } from "./budgets.js";
import { ask, Latest, working } from "./calls.js";
import { theme } from "./charts.js";
import { busy, clear, codeBox, downloads, el, error, field, fieldError, formulas, kept, note } from "./dom.js";
import { showPage } from "./result.js";
import { Source } from "./source.js";

// `tab`: heading, question and guarantee (fields), fit(source) before asking, asked(source), plan and publish (jobs),
// button, explains, names (of downloads), flows, pairs, after(made) more to show.
export function makePublication(panel, shared, tab) {
  const latest = new Latest();
  const length = el("input", { type: "number", min: 1, value: 2016, on: { input: () => update() } });
  const lengthField = field("How many records will there be?", length, undefined, "length");
  const answer = el("section", { className: "card answer", "aria-live": "polite" }, note("computing …"));
  const budgets = new Budgets(shared, { flows: Boolean(tab.flows) });
  const made = el("div", { "aria-live": "polite" }), more = el("div");
  const go = el("button", { type: "button", className: "main", text: tab.button, disabled: true, on: { click: () => publish() } });
  const publishCard = el("section", { className: "card" }, el("h2", { text: "Release" }), note(tab.explains), budgets.root, go, made, more);
  const code = codeBox();
  const source = new Source(shared, { pairs: Boolean(tab.pairs), change: () => update() });
  const form = el(
    "form", { className: "asks", on: { submit: (event) => event.preventDefault() } },
    el("h2", { text: tab.heading }),
    source.root,
    el("fieldset", {}, el("legend", { text: "3 · Question" }), ...tab.question, lengthField),
    el("fieldset", {}, el("legend", { text: "4 · Guarantee" }), ...tab.guarantee),
  );
  panel.append(el("div", { className: "tab-body" }, form, el("div", { className: "tells" }, answer, publishCard, code.root)));

  const asked = () => ({
    model: source.model.key, data: source.file?.key ?? null, reading: source.reading,
    length: lengthField.hidden ? null : Number(length.value) || null, theme: theme(), ...tab.asked(),
  });

  function refuse(words, wrong = true) {
    go.disabled = true;
    clear(answer, wrong ? error(words) : note(words));
  }

  async function update() {
    lengthField.hidden = Boolean(source.file) || !source.model?.chained;
    publishCard.hidden = !source.file;
    tab.fit?.(source);
    if (!source.model) {
      latest.cancel();
      for (const node of [made, more]) clear(node);
      code.hide();
      return refuse(source.told.words, source.told.wrong);
    }
    const slow = setTimeout(() => busy(answer, true), 150);
    try {
      const found = await latest.ask(tab.plan, asked());
      if (!found) return;
      fieldError(form);
      go.disabled = false;
      showPage(answer, found.page);
      code.show(found.commands);
    } catch (problem) {
      refuse(problem.message);
      fieldError(form, problem.message);
    } finally {
      clearTimeout(slow);
      busy(answer, false);
    }
  }

  async function publish() {
    go.disabled = true;
    const { length: _, ...rest } = asked();
    const asking = { ...rest, dataset: budgets.name };
    try {
      const found = await working(made, (hear, signal) => ask(tab.publish, asking, hear, signal));
      const row = found.certificate.ledger;
      const where = row ? `Charged to ${row.dataset}, row ${row.position} of the ledger.` : "Not charged to any ledger: count your releases yourself.";
      const shown = [el("p", { className: "charged", text: where }), ...kept(found.kept), ...formulas(found), downloads(found.made, { "report.html": "Report (HTML)", ...tab.names })];
      if (found.page) showPage(made, found.page, ...shown);
      else clear(made, ...shown);
      code.show(found.commands);
      tab.after?.(found, more);
      shared.changed?.();
      await budgets.read();
    } catch (problem) {
      clear(made, error(budgets.words(problem, asking.dataset)));
    } finally {
      go.disabled = !source.model;
    }
  }

  source.read();
  return { update, enter: () => budgets.read(), redraw: update };
}
