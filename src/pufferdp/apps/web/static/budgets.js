// Which data set of the ledger a release or a redaction is charged to.

import { ask, Lost } from "./calls.js";
import { theme } from "./charts.js";
import { field, fill, number, select } from "./dom.js";

export class Budgets {
  constructor(shared, { flows = false } = {}) {
    this.shared = shared;
    this.flows = flows;
    this.choice = select([], undefined, () => {});
    this.root = field("Charge it to", this.choice, "The ledger is charged before anything is drawn");
  }

  // The data set's name; null where nothing is charged.
  get name() {
    return this.choice.value || null;
  }

  async read() {
    this.root.hidden = this.shared.started.ledger === null;
    if (this.root.hidden) return;
    const found = await ask("ledger", { theme: theme() }).catch(() => ({ datasets: [] }));
    const left = (d) => (this.flows ? `${number(d.spent_tau)} of ${number(d.budget.tau)} spent` : d.left === null ? "no model yet" : d.left_dp === 0 && !d.ranges.length ? "used up" : `${number(d.left)} of ${number(d.budget)} left`);
    // Flows have budgets of their own kind.
    const named = found.datasets.filter((d) => "spent_tau" in d === this.flows).map((d) => [d.dataset, `${d.dataset} (${left(d)})`]);
    fill(this.choice, [["", "no ledger: I keep count myself"], ...named], this.choice.value);
  }

  // What to say where something went wrong after a charge may have been made.
  words(problem, name) {
    const charged = name && problem instanceof Lost ? ` If ${name} was charged already, the answer is kept: ${this.shared.started.answers}` : "";
    return problem.message + charged;
  }
}
