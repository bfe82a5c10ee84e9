// What the tabs work on: a file, how its rows become a series, and a model. Files and models are shared by the tabs.

import { ask, upload } from "./calls.js";
import { busy, CANCELLED, clear, dropZone, el, error, field, fieldError, fill, note, number, select } from "./dom.js";

const EXAMPLE = { key: "week", name: "week.csv", label: "Example: a simulated week", columns: ["time", "activity"], column: "activity", order: "time", model: "wearer" };
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
  // A model that was fitted in one tab is there for the others; the latest of each file.
  learn(model) {
    this.models = [...this.models.filter((m) => m.label !== model.label), model];
    this.heard.forEach((act) => act());
  }
  async takeModel(file, signal) {
    const found = await upload("model", file, this.started.largest, {}, signal);
    this.models.push({ ...found, label: found.name });
    this.heard.forEach((act) => act());
    return this.models.at(-1);
  }
}

const ORDER = "Rows are sorted by this column";

// Which column is the series and which says when: a guess that is shown and can be changed.
function guess(columns) {
  const order = columns.find((name) => /time|stamp/i.test(name)) ?? null;
  const others = columns.filter((name) => !/time|stamp|date|day|hour|minute|interval|index|number|^(id|person|patient|subject|user|name)/i.test(name));
  return { column: others.at(-1) ?? columns.at(-1), order };
}

export class Source {
  // series: one series, without people or gaps. models: no data, models alone, and `own` among them.
  // pairs: two columns may be read together.
  constructor(shared, { series = false, models = false, own = null, pairs = false, change }) {
    this.shared = shared;
    this.series = series;
    this.own = own;
    this.pairs = pairs;
    this.change = change;
    this.file = models ? null : EXAMPLE;
    this.model = own ?? WEARER;
    this.believed = this.model.key;
    this.turn = 0;
    this.told = { words: "", wrong: false }; // what to say where there is no model yet
    this.said = el("div", { "aria-live": "polite" });
    this.about = el("div");
    const again = () => this.read();
    this.files = select([], EXAMPLE.key, (key) => this.choose(key));
    this.column = select([], undefined, again);
    this.second = select([], undefined, again);
    this.order = select([], undefined, again);
    this.by = select([], undefined, again);
    this.restart = el("input", { type: "text", placeholder: "8h", on: { change: again } });
    this.independent = select([["no", "only if they look like people"], ["yes", "yes, whatever they look like"]], "no", again);
    this.missing = select([["refuse", "stop and tell me"], ["keep", "keep them as unobserved time steps"]], "refuse", again);
    this.models = select([], this.believed, (key) => this.believe(key));
    this.bins = el("input", { type: "text", placeholder: "0,50,100,200", on: { change: again } });
    this.confidence = select([["", "one chain, the likeliest"], ["0.95", "all chains that fit, with 95 % confidence"]], "", again);
    this.fitting = el(
      "div", {},
      field("Bins, where the column holds numbers", this.bins, "Edges that turn numbers into states: 0,50,100,200 or width:50", "bins"),
      series ? null : field("Confidence in the model", this.confidence),
    );
    // Nothing is released while a file that was chosen has not been taken: what was there before is to be chosen again.
    this.refused = el("div");
    this.refusedModel = el("div");
    const drop = (label, accept, place, take) =>
      dropZone({ label, accept, take: (file) => this.busy("reading " + file.name, (signal) => take(file, signal), place) });
    this.root = el(
      "div", {},
      models ? "" : el(
        "fieldset", {},
        el("legend", { text: "1 · Data" }),
        field("File", this.files),
        drop("Drop a CSV or Parquet file here, or choose one", ".csv,.tsv,.txt,.parquet", this.refused, async (file, signal) => this.choose((await shared.takeFile(file, signal)).key)),
        this.refused,
        (this.rows = el(
          "div", {},
          field("Column with the values", this.column),
          pairs ? field("A second column, for a cross table", this.second) : null,
          series
            ? field("Order", this.order, ORDER)
            : el(
                "details", {},
                el("summary", { text: "Order, people, gaps" }),
                field("Order", this.order, ORDER),
                field("People", this.by, "One independent series for each"),
                field("Are people independent?", this.independent),
                field("Restart", this.restart, "What follows a longer gap is assumed to be independent: 8h, or a number", "restart"),
                field("Where a value is missing", this.missing),
              ),
        )),
      ),
      el(
        "fieldset", {},
        el("legend", { text: `${models ? 1 : 2} · How the records are correlated` }),
        field("Model", this.models),
        this.fitting,
        this.about,
        el("details", {}, el("summary", { text: "Use a model file" }), drop("Drop a model file (JSON), or choose one", ".json", this.refusedModel, async (file, signal) => this.believe((await shared.takeModel(file, signal)).key)), this.refusedModel),
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
    const fits = this.series ? this.shared.models.filter((m) => m.redactable) : [...(this.own ? [this.own] : []), ...this.shared.models];
    fill(this.models, [...fits.map((m) => [m.key, m.label]), ...(this.file ? fitted : [])], this.believed);
  }

  columns() {
    const names = (this.file?.columns ?? []).map((name) => [name, name]);
    fill(this.column, names, this.file?.column);
    fill(this.second, [["", "none"], ...names], "");
    fill(this.order, [["", "as in the file: no column holds times"], ["rows", "as in the file: the rows are in time order"], ...names], this.file?.order ?? "");
    fill(this.by, [["", "one series"], ...names], "");
    if (this.rows) this.rows.hidden = !this.file;
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

  get isExample() {
    return this.file === EXAMPLE;
  }

  // A model from the released data weakens the guarantee. Of a model file nobody knows which data it is from.
  fitted() {
    const { fitted, fittedOn, label } = this.model ?? {};
    if (!fitted || !this.file) return "";
    if (fittedOn && fittedOn !== this.file.key) return note(`${label}, and not on the data that is released.`);
    const [when, words] = fittedOn
      ? ["Fitted on the data that is released: ", "this weakens the guarantee, and the certificate says so. A model from other data keeps it whole."]
      : ["This model was fitted on data. ", "If that is the data that is released, the guarantee is weaker; the certificate says so."];
    return el("p", { className: "warning" }, el("strong", { text: when }), words);
  }

  get reading() {
    if (!this.file) return null;
    const plain = { column: this.column.value + (this.second.value ? `,${this.second.value}` : ""), order: this.order.value || null };
    if (this.series) return plain;
    return { ...plain, by: this.by.value || null, restart: this.restart.value.trim() || null, missing: this.missing.value, independent: this.by.value !== "" && this.independent.value === "yes" };
  }

  // Nothing of an older choice stays on the screen while a new one is read.
  tell(words, wrong = false) {
    this.model = null;
    this.told = { words, wrong };
    return this.change();
  }

  // What goes wrong is said at `place`, beside what was chosen; and where a release would be armed.
  async busy(words, act, place = this.said) {
    const turn = ++this.turn;
    this.abort?.abort();
    const mine = (this.abort = new AbortController());
    const stop = el("button", { type: "button", className: "small", text: "Cancel", on: { click: () => mine.abort() } });
    const slow = setTimeout(() => turn === this.turn && clear(this.said, el("p", { className: "note row" }, `${words} …`, stop)), 1000);
    for (const node of [this.said, this.about, this.refused, this.refusedModel]) clear(node);
    busy(this.root, true);
    this.tell(`${words} …`);
    try {
      await act(mine.signal);
    } catch (problem) {
      if (turn !== this.turn) return;
      const said = mine.signal.aborted ? `${CANCELLED} Choose again.` : problem.message;
      clear(this.said);
      await this.tell(said, true);
      const back = el("button", { type: "button", className: "small", text: `Go on with ${this.file?.name ?? "what was chosen"}`, on: { click: () => this.read() } });
      clear(place, error(said), place === this.said ? "" : back);
      fieldError(this.root, said);
    } finally {
      clearTimeout(slow);
      busy(this.root, false);
    }
  }

  // Everything that hangs on a choice: the fit, and then the view of the answer.
  async read() {
    this.turn++;
    this.abort?.abort();
    const fits = this.believed === FIT;
    this.fitting.hidden = !fits;
    for (const node of [this.said, this.refused, this.refusedModel]) clear(node);
    fieldError(this.root);
    if (!fits) {
      this.model = [this.own, ...this.shared.models].filter(Boolean).find((m) => m.key === this.believed) ?? null;
      clear(this.about, note(this.model?.words ?? states(this.model)), this.fitted());
      return this.change();
    }
    await this.busy(`reading ${this.file.name}`, async (signal) => {
      const turn = this.turn;
      const at = { data: this.file.key, column: this.column.value };
      const found = await ask("values", at, {}, signal);
      if (turn !== this.turn) return;
      if (!this.second.value && found.range !== null && found.distinct > MANY && !this.bins.value.trim()) {
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
      this.model = { ...fit, label: `Fitted on ${this.file.name}`, fittedOn: this.file.key };
      this.shared.learn(this.model);
      const left = fit.left_out.length ? ` Left out, because the data never leaves them: ${fit.left_out.join(", ")}.` : "";
      const failed = fit.checks.filter((check) => check.holds === false);
      const misfits = failed.map((check) => el("p", { className: "warning", text: `The model fails a check (${check.question}): ${check.advice}.` }));
      clear(this.about, note(fit.words + left), ...misfits, this.fitted());
      await this.change();
    });
  }
}

const states = (model) => (model ? `States: ${model.states.join(", ")}` : "");
