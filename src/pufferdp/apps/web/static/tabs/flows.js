// How a process moves between its states, published without its fine structure or any one step.

import { field, select, slider } from "../dom.js";
import { makePublication } from "../publication.js";

const PRIVACY = [
  ["joint", "the chain and each step (both)"],
  ["orbit", "the chain: how exactly the process moves"],
  ["record", "each single step"],
];

export async function make(panel, shared) {
  let tab = null;
  const change = () => tab?.update();
  const privacy = select(PRIVACY, "joint", change);
  const tau = slider({ label: "τ, how far two releases may be apart", low: 0.01, high: 0.9, value: 0.2, log: true, change, hint: "Total variation: 0 says nothing, 1 hides nothing", words: (v) => `tau ${v}`, refusals: "tau" });
  const eta = slider({ label: "η, how much rows of the chain may differ", low: 0.001, high: 0.5, value: 0.05, log: true, change, hint: "Chains this close to the model are not distinguished", words: (v) => `eta ${v}`, refusals: "eta" });
  tab = makePublication(panel, shared, {
    heading: "How does it move from state to state?",
    question: [field("What is hidden?", privacy)],
    guarantee: [tau.root, eta.root],
    plan: "flow_plan", publish: "flow", button: "Release the flow", flows: true,
    explains: "Draws fresh noise once and publishes the shares of all transitions.",
    names: { "flow.json": "Flow and certificate (JSON)" },
    asked: () => ({ tau: tau.value, eta: eta.value, privacy: privacy.value }),
  });
  return tab;
}
