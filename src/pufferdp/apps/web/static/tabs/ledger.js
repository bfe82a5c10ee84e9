// Budgets: what was spent, what is left, whether it all still holds. And certificates, recomputed.

import { ask, upload, working } from "../calls.js";
import { draw, theme } from "../charts.js";
import { clear, codeBox, dropZone, el, error, note, number, safe, table } from "../dom.js";

export async function make(panel, shared) {
  const place = shared.started.ledger;
  const books = el("div", { "aria-live": "polite" }), checked = el("div", { "aria-live": "polite" }), found = el("div", { "aria-live": "polite" });
  const code = codeBox();
  const check = el("button", { type: "button", text: "Verify the ledger", on: { click: () => verify() } });
  panel.append(
    el(
      "div", { className: "tab-body halves" },
      el(
        "section", { className: "card" },
        el("h2", { text: "Verify a certificate or a report" }),
        note("Everything in it is recomputed, without the data."),
        dropZone({ label: "Drop a .json or .html file here, or choose one", accept: ".json,.html,.htm", take: (file) => look(file) }),
        found,
      ),
      el(
        "section", { className: "card" },
        el("h2", { text: "Ledger" }),
        place === null ? note("No ledger is open. A ledger keeps the budget of a data set over many releases: make one and start the page with it, as shown below.") : el("p", {}, "File: ", el("code", { text: place })),
        place === null ? null : el("p", { className: "note" }, "What is charged here is kept: ", el("code", { text: shared.started.answers })),
        books,
        place === null ? null : check,
        checked,
      ),
      code.root,
    ),
  );
  code.show(shared.started.commands.ledger);
  if (place === null) code.root.open = true;

  async function look(file) {
    try {
      const said = await working(found, (hear, signal) => upload("verify", file, shared.started.largest, hear, signal));
      clear(
        found,
        el("p", { className: said.valid ? "verdict good" : "verdict bad" }, el("strong", { text: said.valid ? "✓ Valid. " : "✗ Not valid. " }), file.name),
        said.statement ? el("p", { text: said.statement }) : "",
        el("ul", {}, ...said.problems.map((words) => el("li", { text: words }))),
        ...said.warnings.map((words) => el("p", { className: "warning", text: words })),
        said.head ? el("p", { text: inLedger(said) }) : el("p", { text: "It was not charged to a ledger." }),
      );
    } catch (problem) {
      clear(found, error(problem.message));
    }
  }

  function inLedger(said) {
    if (place === null) return "It was charged to a ledger; open that ledger to look up its row.";
    return said.ledger.valid ? "✓ Its row is in this ledger, and the ledger holds." : `✗ ${said.ledger.problems.join(" ")}`;
  }

  async function verify() {
    try {
      const said = await working(checked, (hear, signal) => ask("ledger_verify", {}, hear, signal));
      clear(
        checked,
        el("p", { className: said.valid ? "verdict good" : "verdict bad" }, el("strong", { text: said.valid ? "✓ Valid: " : "✗ Not valid: " }), `${number(said.releases)} releases, ${number(said.recomputed)} distinct.`),
        el("ul", {}, ...said.problems.map((words) => el("li", { text: words })), ...said.unchecked.map((words) => el("li", { text: `Not recomputed: ${words}` }))),
      );
    } catch (problem) {
      clear(checked, error(problem.message));
    }
  }

  async function show() {
    if (place === null) return;
    try {
      const { datasets } = await ask("ledger", { theme: theme() });
      clear(books, ...(datasets.length ? datasets.map(account) : [note("It has no data set yet.")]));
      for (const [n, d] of datasets.entries()) draw(books.children[n].querySelector(".chart"), d.chart);
    } catch (problem) {
      clear(books, error(problem.message));
    }
  }

  return { enter: show, redraw: show };
}

function account(d) {
  // Flows are counted in total variation, everything else in leakage.
  const flows = "spent_tau" in d;
  const spent = flows ? d.spent_tau : d.leakage, budget = flows ? d.budget.tau : d.budget;
  const share = spent === null ? 0 : Math.min(1, spent / budget);
  const meter = el("meter", { min: 0, max: 1, value: share, high: 0.8 });
  meter.setAttribute("aria-label", `${d.dataset}: share of the budget that is spent`);
  const rows = d.latest.map((r) => ({ cells: [`${r.position}`, r.created.slice(0, 16).replace("T", " "), r.query ?? r.kind, r.mechanism ?? "–", flows ? safe(r.tau) : number(r.epsilon), flows ? "–" : safe(r.dp_loss)] }));
  const usedUp = d.left_dp === 0 && !d.ranges.length;
  const left = flows || d.left_dp === null ? "" : usedUp ? `; it is used up${d.spent_dp === null ? ", because no DP loss bounds what was published" : ""}` : `; ${d.ranges.length ? "where most was charged " : ""}a DP loss of ${safe(d.left_dp, true)} is left`;
  return el(
    "section", { className: "account" },
    el("h3", { text: d.dataset }),
    el("p", { className: "row" }, meter, el("span", {}, flows ? "total variation spent " : "leaked at most ", el("strong", { text: safe(spent) }), ` of ${safe(budget, true)}${left}`)),
    el("div", { className: "chart" }),
    rows.length ? table(["Row", "When (UTC)", "What", "Mechanism", flows ? "τ" : "ε", "DP loss"], rows, `Releases of ${d.dataset}, the latest first`, 4) : note("Nothing was released yet."),
    el("p", {}, el("small", {}, "Head: ", el("code", { text: d.head }))),
  );
}
