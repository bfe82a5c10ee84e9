// What the rooms work on: a file, how its rows become a series, and a model. Files and models are shared by the rooms.

import { ask, upload } from "./calls.js";
import { busy, CANCELLED, clear, dropZone, el, error, field, fill, note, number, select } from "./dom.js";

const EXAMPLE = { key: "week", name: "week.csv", label: "Example: one wearer's week (simulated)", columns: ["time", "activity"], column: "activity", order: "time", model: "wearer" };
const WEARER = { key: "wearer", name: "wearer.json", label: "The example's model (wearer.json)", states: ["resting", "light", "active"], numbers: true, chained: true, redactable: true };
const FIT = "fit";
const MANY = 20;

export class Shared {
  constructor(started) {
    this.started = started;
    this.files = [EXAMPLE];
    this.models = [WEARER];
    this.heard = new Set();
  }
  async takeFile(file, signal) {
    const found = await upload("data", file, this.started.largest, {}, signal);
    const kept = { ...found, label: found.name, ...guess(found.columns) };
    this.files.push(kept);
    this.heard.forEach((act) => act());
    return kept;
  }
  async takeModel(file, signal) {
    const found = await upload("model", file, this.started.largest, {}, signal);
    this.models.push({ ...found, label: found.name });
    this.heard.forEach((act) => act());
    return this.models.at(-1);
  }
}

// Which column is the series and which says when: a guess that is shown and can be changed.
function guess(columns) {
  const order = columns.find((name) => /time|stamp/i.test(name)) ?? null;
  const others = columns.filter((name) => !/time|stamp|date|day|hour|minute|interval|index|number|^(id|person|patient|subject|user|name)/i.test(name));
  return { column: others.at(-1) ?? columns.at(-1), order };
}

export class Source {
  constructor(shared, { series = false, change }) {
    this.shared = shared;
    this.series = series; // a series is taken in row order: no order, people or gaps
    this.change = change;
    this.file = EXAMPLE;
    this.model = WEARER;
    this.believed = WEARER.key;
    this.turn = 0;
    this.told = { words: "", wrong: false }; // what to say where there is no model yet
    this.said = el("div", { "aria-live": "polite" });
    this.about = el("div");
    const again = () => this.read();
    this.files = select([], EXAMPLE.key, (key) => this.choose(key));
    this.column = select([], undefined, again);
    this.order = select([], undefined, again);
    this.by = select([], undefined, again);
    this.restart = el("input", { type: "text", placeholder: "8h", on: { change: again } });
    this.independent = select([["no", "stop where they do not look like people"], ["yes", "independent, whatever they look like"]], "no", again);
    this.missing = select([["refuse", "stop and tell me"], ["hole", "the series goes on behind it"]], "refuse", again);
    this.models = select([], WEARER.key, (key) => this.believe(key));
    this.bins = el("input", { type: "text", placeholder: "0,50,100,200", on: { change: again } });
    this.confidence = select([["", "one chain, the likeliest"], ["0.95", "all chains that fit, 95 % sure"]], "", again);
    this.fitting = el(
      "div", {},
      field("Bins, where the column holds numbers", this.bins, "Edges that turn numbers into states: 0,50,100,200 or width:50"),
      series ? null : field("How sure of the model", this.confidence),
    );
    // A file that cannot be taken leaves everything as it was.
    const drop = (label, accept, take) =>
      dropZone({ label, accept, take: (file) => this.busy("reading " + file.name, (signal) => take(file, signal), () => this.read()) });
    this.root = el(
      "div", {},
      el(
        "fieldset", {},
        el("legend", { text: "1 · Data" }),
        field("File", this.files),
        drop("Drop a CSV here, or choose one", ".csv,.tsv,.txt", async (file, signal) => this.choose((await shared.takeFile(file, signal)).key)),
        (this.rows = el(
          "div", {},
          field("Column with the values", this.column),
          series
            ? null
            : el(
                "details", {},
                el("summary", { text: "Order, people, gaps" }),
                field("Order", this.order, "Rows are sorted by this column"),
                field("People", this.by, "One independent series for each"),
                field("Are people independent?", this.independent),
                field("Restart", this.restart, "What follows a longer gap is believed to be independent: 8h, or a number"),
                field("Where a value is missing", this.missing),
              ),
        )),
      ),
      el(
        "fieldset", {},
        el("legend", { text: "2 · How the records hang together" }),
        field("Model", this.models),
        this.fitting,
        this.about,
        el("details", {}, el("summary", { text: "Use a model file" }), drop("Drop a model file (JSON), or choose one", ".json", async (file, signal) => this.believe((await shared.takeModel(file, signal)).key))),
        this.said,
      ),
    );
    shared.heard.add(() => this.refresh());
    this.refresh();
    this.columns();
  }

  refresh() {
    const none = this.series ? [] : [["", "No data yet: a model alone"]];
    fill(this.files, [...this.shared.files.map((f) => [f.key, f.label]), ...none], this.file?.key ?? "");
    const fitted = this.file && this.file !== EXAMPLE ? [[FIT, `A chain fitted on ${this.file.name}`]] : [[FIT, "A chain fitted on this data"]];
    const fits = this.series ? this.shared.models.filter((m) => m.redactable) : this.shared.models;
    fill(this.models, [...fits.map((m) => [m.key, m.label]), ...(this.file ? fitted : [])], this.believed);
  }

  columns() {
    const names = (this.file?.columns ?? []).map((name) => [name, name]);
    fill(this.column, names, this.file?.column);
    fill(this.order, [["", "as in the file"], ...names], this.file?.order ?? "");
    fill(this.by, [["", "one series"], ...names], "");
    this.rows.hidden = !this.file;
  }

  choose(key) {
    this.file = this.shared.files.find((f) => f.key === key) ?? null;
    this.columns();
    this.bins.value = "";
    this.believed = this.file && this.file !== EXAMPLE ? FIT : this.believed === FIT ? WEARER.key : this.believed;
    if (this.file === EXAMPLE) this.believed = WEARER.key;
    this.refresh();
    return this.read();
  }

  believe(key) {
    this.believed = key;
    this.refresh();
    return this.read();
  }

  get reading() {
    if (!this.file) return null;
    const plain = { column: this.column.value };
    if (this.series) return plain;
    return { ...plain, order: this.order.value || null, by: this.by.value || null, restart: this.restart.value.trim() || null, missing: this.missing.value, independent: this.by.value !== "" && this.independent.value === "yes" };
  }

  // Nothing of an older choice stays on the screen while a new one is read.
  tell(words, wrong = false) {
    this.model = null;
    this.told = { words, wrong };
    return this.change();
  }

  async busy(words, act, failed = (words) => this.tell(words, true)) {
    const turn = ++this.turn;
    this.abort?.abort();
    const mine = (this.abort = new AbortController());
    const stop = el("button", { type: "button", className: "small", text: "Cancel", on: { click: () => mine.abort() } });
    const slow = setTimeout(() => turn === this.turn && clear(this.said, el("p", { className: "note row" }, `${words} …`, stop)), 1000);
    clear(this.said);
    clear(this.about);
    busy(this.root, true);
    this.tell(`${words} …`);
    try {
      await act(mine.signal);
    } catch (problem) {
      if (turn !== this.turn) return;
      const said = mine.signal.aborted ? `${CANCELLED} Choose again.` : problem.message;
      await failed(said);
      clear(this.said, error(said));
    } finally {
      clearTimeout(slow);
      busy(this.root, false);
    }
  }

  // Everything that hangs on a choice: the fit, and then whoever shows the answer.
  async read() {
    this.turn++;
    this.abort?.abort();
    const fits = this.believed === FIT;
    this.fitting.hidden = !fits;
    clear(this.said);
    if (!fits) {
      this.model = this.shared.models.find((m) => m.key === this.believed) ?? null;
      clear(this.about, this.model?.fitted ? warning() : note(this.model?.words ?? states(this.model)));
      return this.change();
    }
    await this.busy(`reading ${this.file.name}`, async (signal) => {
      const turn = this.turn;
      const at = { data: this.file.key, column: this.column.value };
      const found = await ask("values", at, {}, signal);
      if (turn !== this.turn) return;
      if (found.range !== null && found.distinct > MANY && !this.bins.value.trim()) {
        const words = `${at.column} holds ${number(found.distinct)} different numbers from ${number(found.range[0])} to ${number(found.range[1])}. Write down under “Bins” in which ranges they are to be counted.`;
        clear(this.about, note(words));
        this.bins.focus();
        this.tell(words);
        return;
      }
      const asked = { data: this.file.key, reading: this.reading, bins: this.bins.value.trim() || null, confidence: this.series ? null : Number(this.confidence.value) || null };
      const fit = await ask("fit", asked, { progress: (words) => turn === this.turn && this.tell(`${words} …`) }, signal);
      if (turn !== this.turn) return;
      clear(this.said);
      this.model = { ...fit, label: fit.name };
      const left = fit.left_out.length ? ` Left out, because the data never leaves them: ${fit.left_out.join(", ")}.` : "";
      const failed = fit.checks.filter((check) => check.holds === false);
      const misfits = failed.map((check) => el("p", { className: "warning", text: `The model fails a check (${check.question}): ${check.advice}.` }));
      clear(this.about, note(fit.words + left), ...misfits, warning());
      await this.change();
    });
  }
}

const states = (model) => (model ? `States: ${model.states.join(", ")}` : "");
const warning = () =>
  el("p", { className: "warning" }, el("strong", { text: "Fitted on the data that is released: " }), "this weakens the promise, and the certificate will say so. A model from other data keeps it whole.");
