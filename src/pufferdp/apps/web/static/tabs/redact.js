// A series, the records to hide, and what else has to go with them.

import { Budgets } from "../budgets.js";
import { ask, Latest, working } from "../calls.js";
import { draw, theme } from "../charts.js";
import { busy, clear, codeBox, downloads, el, error, field, fieldError, formulas, kept as keptWords, note, number, safe, select, slider } from "../dom.js";
import { Source } from "../source.js";

const WINDOW = 288;
const EXAMPLE_ROW = 100; // hidden in the example, so that there is something to see; in other files nothing is
const ADVERSARIES = [["bdp", "may know any other records"], ["pufferfish", "knows no record"], ["dp", "knows all other records"]];

export async function make(panel, shared) {
  const latest = new Latest();
  let series = null, design = null, marked = null, cursor = 1, first = 1, loads = 0;
  const hidden = new Set(), timed = new Set(); // rows by hand, and rows that times stand for

  const epsilon = slider({ label: "ε, how much may leak about a hidden record", low: 0.1, high: 10, value: 1, log: true, change: () => designed(), words: (v) => `epsilon ${v}` });
  const adversary = select(ADVERSARIES, "bdp", () => designed());
  const list = el("div", { className: "records", role: "listbox", tabIndex: 0, "aria-label": "Records of the series: arrow keys move, Enter hides or shows", "aria-multiselectable": "true" });
  const row = el("input", { type: "number", min: 1, value: 1, className: "short", on: { change: () => move(Number(row.value) || 1, false) } });
  const times = el("input", { type: "text", placeholder: "2024-01-01 08:00..2024-01-01 09:00", on: { change: () => designed() } });
  const asTimes = () => times.value.split(",").map((part) => part.trim()).filter(Boolean);
  const byTime = el("div", {}, field("Hide these times, too", times, "A time, a date, or a range A..B; several with commas", "private"));
  const chosen = el("p", { "aria-live": "polite" });
  const headline = el("div", { className: "headline", "aria-live": "polite" }, note("computing …")), chart = el("div", { className: "chart" }), made = el("div", { "aria-live": "polite" });
  const go = el("button", { type: "button", className: "main", text: "Redact the series", disabled: true, on: { click: () => redact() } });
  const budgets = new Budgets(shared);
  const keep = el("fieldset", { hidden: true });
  const answer = el("section", { className: "card answer" }, headline, chart);
  const code = codeBox();
  const source = new Source(shared, { series: true, change: () => load() });
  const page = (step) => el("button", { type: "button", className: "small", text: step < 0 ? "← earlier" : "later →", on: { click: () => move(Math.min(Math.max(first + step * WINDOW, 1), series?.rows ?? 1), false) } });
  panel.append(
    el(
      "div", { className: "tab-body" },
      el(
        "form", { className: "asks", on: { submit: (event) => event.preventDefault() } },
        el("h2", { text: "Publish the series, but hide these records" }),
        source.root,
        el("fieldset", {}, el("legend", { text: "3 · Guarantee" }), epsilon.root, field("Adversary's background knowledge", adversary)),
      ),
      el(
        "div", { className: "tells" },
        el(
          "section", { className: "card" },
          el("h2", { text: "The series" }),
          note("Click a record to hide it. Or move with the arrow keys and press Enter."),
          el("div", { className: "row" }, field("Go to row", row), page(-1), page(1)),
          list,
          byTime,
          el("ul", { className: "legend" }, ...[["private", "hidden by you"], ["always", "always redacted"], ["some", "redacted for some values"], ["free", "released"], ["gone", "* redacted in the file below"]].map(([name, words]) => el("li", {}, el("span", { className: `record ${name}`, "aria-hidden": "true", text: name === "gone" ? "*" : "a" }), words))),
          chosen,
        ),
        answer,
        el("section", { className: "card" }, el("h2", { text: "Redact" }), note("Decides by fresh randomness which of the marked records are replaced by *, and writes the column anew."), keep, budgets.root, go, made),
        code.root,
      ),
    ),
  );

  // Other columns could give a hidden record away, so none comes along unless it is ticked.
  function offer() {
    const others = (source.file?.columns ?? []).filter((name) => name !== source.column.value);
    keep.hidden = byTime.hidden = !others.length;
    clear(
      keep,
      el("legend", { text: "Other columns to keep" }),
      note("Without a tick only the column itself is written. The guarantee does not cover what a kept column tells."),
      ...others.map((name) => el("label", {}, el("input", { type: "checkbox", value: name }), ` ${name}`)),
    );
  }
  const kept = () => [...keep.querySelectorAll("input:checked")].map((box) => box.value);

  async function load() {
    const turn = ++loads;
    offer();
    series = null;
    design = marked = null;
    hidden.clear();
    timed.clear();
    clear(made);
    code.hide();
    if (!source.model) clear(headline, source.told.wrong ? error(source.told.words) : note(source.told.words));
    if (source.model && source.file) {
      try {
        const found = await ask("series", { data: source.file.key, model: source.model.key, column: source.column.value });
        if (turn !== loads) return; // another file was chosen meanwhile
        series = found;
        if (source.isExample) hidden.add(EXAMPLE_ROW);
        cursor = source.isExample ? EXAMPLE_ROW : 1;
        first = 1;
      } catch (problem) {
        if (turn !== loads) return;
        clear(headline, error(problem.message));
        clear(chart);
      }
    }
    show();
    await designed();
  }

  // Which of the regions a row is in: always redacted, sometimes, or never.
  function region(at) {
    const block = design?.blocks.find((b) => b.first <= at && at < b.first + b.redaction_probabilities.length);
    const chances = block?.redaction_probabilities[at - block.first];
    if (!chances || chances.every((p) => p === 0)) return ["free", "released"];
    if (chances.every((p) => p === 1)) return ["always", "always redacted"];
    return ["some", `redacted with probability ${design.states.map((s, n) => `${number(chances[n])} if ${s}`).join(", ")}`];
  }

  function show() {
    const last = series ? Math.min(first + WINDOW - 1, series.codes.length) : 0;
    const cells = [];
    for (let at = first; at <= last; at++) {
      const code = series.codes[at - 1], label = code < 0 ? "missing" : series.labels[code];
      const [kind, words] = region(at), gone = marked?.has(at);
      const mine = hidden.has(at) || timed.has(at) ? "private" : "";
      cells.push(
        el("div", {
          id: `record-${at}`, role: "option", "aria-selected": String(mine !== ""),
          className: `record ${kind} ${mine} ${gone ? "gone" : ""} ${at === cursor ? "cursor" : ""} shade-${code < 0 ? "none" : Math.min(code, 5)}`,
          "aria-label": `row ${at}, ${label}, ${mine ? "hidden by you, " : ""}${words}${gone ? ", redacted in the file" : ""}`,
          title: `row ${at}: ${label}; ${words}`, text: gone ? "*" : short(label),
        }),
      );
    }
    clear(list, ...cells);
    list.setAttribute("aria-activedescendant", `record-${cursor}`);
    const rows = [...new Set([...hidden, ...timed])].sort((a, b) => a - b);
    const names = series ? series.labels.slice(0, 6).map((l) => `${short(l)} ${l}`).join(", ") : "";
    const most = series && series.rows > series.codes.length ? ` The first ${number(series.codes.length)} of ${number(series.rows)} rows can be shown.` : "";
    chosen.textContent = series ? `Rows ${number(first)} to ${number(last)} of ${number(series.rows)}: ${names}. ${rows.length ? `Hidden by you: row ${rows.slice(0, 20).join(", ")}${rows.length > 20 ? ` and ${rows.length - 20} more` : ""}.` : "Nothing is hidden yet."}${most}` : "";
    row.value = cursor;
    row.max = series?.codes.length ?? 1;
    go.disabled = !series || !rows.length;
  }

  function move(to, focus = true) {
    if (!series) return;
    cursor = Math.min(Math.max(to, 1), series.codes.length);
    if (cursor < first || cursor >= first + WINDOW) first = Math.floor((cursor - 1) / WINDOW) * WINDOW + 1;
    show();
    document.getElementById(`record-${cursor}`)?.scrollIntoView({ block: "nearest" });
    if (focus) list.focus();
  }

  function toggle(at) {
    if (!series || series.codes[at - 1] < 0) return;
    hidden.has(at) ? hidden.delete(at) : hidden.add(at);
    marked = null;
    clear(made);
    show();
    designed();
  }

  list.addEventListener("click", (event) => {
    const cell = event.target.closest("[role=option]");
    if (!cell) return;
    cursor = Number(cell.id.slice(7));
    toggle(cursor);
  });
  list.addEventListener("keydown", (event) => {
    const across = Math.max(1, Math.floor(list.clientWidth / (list.firstChild?.getBoundingClientRect().width || 24)));
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: across, ArrowUp: -across, PageDown: WINDOW, PageUp: -WINDOW }[event.key];
    if (step) move(cursor + step);
    else if (event.key === "Home") move(1);
    else if (event.key === "End") move(series?.codes.length ?? 1);
    else if (event.key === "Enter" || event.key === " ") toggle(cursor);
    else return;
    event.preventDefault();
  });

  const inTime = () => (asTimes().length ? { data: source.file.key, column: source.column.value, order: source.order.value || null } : {});

  async function designed() {
    const named = [...[...hidden].sort((a, b) => a - b), ...asTimes()];
    if (!asTimes().length) timed.clear();
    if (!series || !named.length) {
      latest.cancel();
      design = null;
      clear(chart);
      if (series) clear(headline, note("Hide a record, and what else has to go with it is shown here."));
      show();
      return;
    }
    const slow = setTimeout(() => busy(answer, true), 150);
    const asked = { model: source.model.key, length: series.rows, private: named, ...inTime(), epsilon: epsilon.value, adversary: adversary.value, theme: theme() };
    try {
      const found = await latest.ask("design", asked);
      if (!found) return;
      design = found;
      timed.clear();
      if (asTimes().length) found.private.filter((at) => !hidden.has(at)).forEach((at) => timed.add(at));
      fieldError(panel);
      show();
      const many = found.private.length > 1 ? "each hidden record" : "the hidden record";
      clear(
        headline,
        el("p", { className: "verdict" }, el("strong", { text: `${number(100 * found.utility)} %` }), ` of ${number(found.records)} records are released. The leakage about ${many} is at most `, el("strong", { text: safe(found.leakage) }), "."),
        el("p", { className: "guarantee", text: `Method: ${found.method}. The odds between two values of a hidden record shift by a factor of at most e^${number(found.epsilon)} = ${number(Math.exp(found.epsilon))}.` + (found.leakage_to.bdp === null ? " Someone who knows other records would learn it." : ` Someone who knows any other records would learn at most ${safe(found.leakage_to.bdp)}.`) }),
      );
      await draw(chart, found.chart);
      code.show(found.commands);
    } catch (problem) {
      design = null;
      timed.clear();
      clear(headline, error(problem.message));
      fieldError(panel, problem.message);
      clear(chart);
      show();
      go.disabled = true;
    } finally {
      clearTimeout(slow);
      busy(answer, false);
    }
  }

  async function redact() {
    go.disabled = true;
    try {
      const asked = { data: source.file.key, model: source.model.key, column: source.column.value, private: [...[...hidden].sort((a, b) => a - b), ...asTimes()], order: source.order.value || null, epsilon: epsilon.value, keep: kept(), adversary: adversary.value, dataset: budgets.name, theme: theme() };
      const found = await working(made, (hear, signal) => ask("redact", asked, hear, signal));
      marked = new Set(found.marked);
      show();
      code.show(found.commands);
      clear(
        made,
        el("p", { text: `${number(found.marked.length)} of ${number(found.records)} records are replaced by ${found.mark}.` }),
        el("p", { text: found.certificate.ledger ? `Charged to ${found.certificate.ledger.dataset}, row ${found.certificate.ledger.position} of the ledger.` : "Not charged to any ledger: the guarantee is for one publication." }),
        ...keptWords(found.kept),
        ...found.certificate.warnings.map((words) => el("p", { className: "warning", text: words })),
        ...formulas(found),
        downloads(found.made, { "report.html": "Report (HTML)", "certificate.json": "Certificate (JSON)", "*": "Redacted file" }),
      );
      shared.changed?.();
      await budgets.read();
    } catch (problem) {
      clear(made, error(budgets.words(problem, budgets.name)));
    } finally {
      go.disabled = false;
    }
  }

  await source.read();
  return { enter: () => budgets.read(), redraw: designed };
}

const short = (label) => [...label][0] ?? "?";
