// A series whose every record is flipped by chance, to be published once and used for anything; and what it still says.

import { ask, upload, working } from "../calls.js";
import { theme } from "../charts.js";
import { clear, downloads, dropZone, el, error, field, note, select, slider } from "../dom.js";
import { makePublication } from "../publication.js";
import { showPage } from "../result.js";
import { ADVERSARIES } from "./plan.js";

export async function make(panel, shared) {
  let tab = null, series = null, certificate = null;
  const change = () => tab?.update();
  const epsilon = slider({ label: "ε, how much may leak about one record", low: 0.1, high: 10, value: 2, log: true, change, words: (v) => `epsilon ${v}`, refusals: "epsilon" });
  const adversary = select(ADVERSARIES, "bdp", change);
  const estimated = el("div", { "aria-live": "polite" }), chosen = el("p", { className: "note" });

  tab = makePublication(panel, shared, {
    heading: "Publish the series itself, flipped by chance",
    question: [],
    guarantee: [epsilon.root, field("Adversary's background knowledge", adversary)],
    plan: "flip_plan", publish: "flip", button: "Flip the series",
    explains: "Every record passes the channel once. What is counted from the result can be corrected, below.",
    names: { "certificate.json": "Certificate (JSON)", "*": "Flipped series" },
    asked: () => ({ epsilon: epsilon.value, adversary: adversary.value }),
    after(made, node) {
      const use = el("button", { type: "button", text: "Estimate the true shares from it", on: { click: () => estimate(made.flipped) } });
      clear(node, el("p", {}, use));
    },
  });
  const take = (what, keep) => async (file) => {
    try {
      const found = await working(estimated, (hear, signal) => upload(what, file, shared.started.largest, hear, signal));
      clear(estimated);
      keep(found);
      chosen.textContent = `Series: ${series?.name ?? "not chosen yet"}. Certificate: ${certificate?.name ?? "not chosen yet"}.`;
      if (series && certificate) await estimate({ data: series.key, certificate: certificate.key });
    } catch (problem) {
      clear(estimated, error(problem.message));
    }
  };
  panel.querySelector(".tells").append(
    el(
      "section", { className: "card" },
      el("h2", { text: "Estimate" }),
      note("What a flipped series says of the true one, with ranges. It costs no budget."),
      dropZone({ label: "A flipped series (CSV or Parquet)", accept: ".csv,.tsv,.txt,.parquet", take: take("data", (found) => (series = found)) }),
      dropZone({ label: "Its certificate (JSON)", accept: ".json", take: take("certificate", (found) => (certificate = found)) }),
      chosen, estimated,
    ),
  );

  async function estimate(keys) {
    try {
      const found = await working(estimated, (hear, signal) => ask("estimate", { ...keys, theme: theme() }, hear, signal));
      showPage(estimated, found.page, downloads(found.made, { "estimate.json": "Estimates (JSON)" }));
    } catch (problem) {
      clear(estimated, error(problem.message));
    }
  }
  return tab;
}
