// Elements are made here, and their words are always text: nothing that was read from a file is ever parsed as HTML.

let serial = 0;

export function el(tag, options = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [event, act] of Object.entries(value)) node.addEventListener(event, act);
    else if (name === "text") node.textContent = value;
    else if (name in node && !["list", "role"].includes(name)) node[name] = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

export const id = (name) => `${name}-${++serial}`;
export const clear = (node, ...children) => (node.replaceChildren(...children), node);
export const busy = (node, is) => node.setAttribute("aria-busy", is ? "true" : "false");

const four = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });
const whole = new Intl.NumberFormat("en");
export function number(value) {
  if (value === null || value === undefined) return "–";
  if ((Number.isInteger(value) || Math.abs(value) >= 1000) && Math.abs(value) < 1e7) return whole.format(Math.round(value));
  return value !== 0 && (Math.abs(value) < 1e-3 || Math.abs(value) >= 1e7) ? value.toExponential(3) : four.format(value);
}

// Rounded to the safe side: what leaks up, what is left down.
export function safe(value, down = false) {
  if (!value) return number(value);
  const unit = 10 ** (Math.floor(Math.log10(value)) - 3);
  return number((down ? Math.floor(value / unit + 1e-9) : Math.ceil(value / unit - 1e-9)) * unit);
}

// `name` is what refusals of this field begin with; several with a bar between them.
export function field(label, control, hint, name) {
  control.id ||= id("field");
  const note = hint ? el("small", { text: hint, id: id("hint") }) : null;
  if (note) control.setAttribute("aria-describedby", note.id);
  return el("div", { className: "field", "data-refusals": name }, el("label", { text: label, htmlFor: control.id }), control, note);
}

// Says what is wrong beside the field that it is about; nothing where no field is meant.
export function fieldError(root, words = "") {
  for (const old of root.querySelectorAll(".field > .error")) old.remove();
  for (const old of root.querySelectorAll("[aria-invalid]")) {
    old.removeAttribute("aria-invalid");
    old.removeAttribute("aria-errormessage");
  }
  const meant = (node) => !node.closest("[hidden]") && node.dataset.refusals.split("|").some((name) => words.startsWith(name));
  const node = words && [...root.querySelectorAll(".field[data-refusals]")].find(meant);
  if (!node) return;
  const message = el("p", { className: "error", id: id("error"), text: here(words) });
  node.append(message);
  for (const control of node.querySelectorAll("input, select")) {
    control.setAttribute("aria-invalid", "true");
    control.setAttribute("aria-errormessage", message.id);
  }
}

export function select(choices, value, change) {
  const node = el("select", { on: { change: () => change(node.value) } });
  fill(node, choices, value);
  return node;
}

export function fill(node, choices, value) {
  clear(node, ...choices.map(([key, words]) => el("option", { value: key, text: words })));
  if (value !== undefined && choices.some(([key]) => key === value)) node.value = value;
}

// A slider with its number beside it. On a logarithmic scale the slider holds the exponent.
export function slider({ label, low, high, value, step = 0.01, log = false, hint, change, words = number, refusals }) {
  const to = (v) => (log ? Math.log10(v) : v);
  const from = (v) => Number((log ? 10 ** v : v).toPrecision(log ? 2 : 4));
  const range = el("input", { type: "range", min: to(low), max: to(high), step, value: to(value), id: id("range") });
  const box = el("input", { type: "number", min: low, max: high, step: "any", value, className: "short" });
  box.setAttribute("aria-label", `${label}, as a number`);
  const say = (v) => range.setAttribute("aria-valuetext", words(v));
  say(value);
  const node = {
    value,
    set(v) {
      node.value = v;
      range.value = to(v);
      box.value = v;
      say(v);
    },
  };
  range.addEventListener("input", () => {
    node.value = from(Number(range.value));
    box.value = node.value;
    say(node.value);
    change(node.value);
  });
  box.addEventListener("input", () => {
    const v = Number(box.value);
    node.value = v; // what is wrong with it is said beside it
    if (v > 0 || !log) range.value = to(v);
    say(v);
    change(v);
  });
  const note = hint ? el("small", { text: hint, id: id("hint") }) : null;
  if (note) range.setAttribute("aria-describedby", note.id);
  node.root = el(
    "div", { className: "field", "data-refusals": refusals },
    el("label", { text: label, htmlFor: range.id }),
    el("div", { className: "slider" }, range, box),
    note,
  );
  return node;
}

export function table(head, rows, caption, numbers = 1) {
  const cell = (tag, content, n) => {
    const node = el(tag, { className: n >= numbers ? "number" : "" });
    if (tag === "th") node.scope = "col";
    node.append(content ?? "–");
    return node;
  };
  return el(
    "div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": caption },
    el(
      "table", {},
      el("caption", { text: caption, className: "unseen" }),
      el("thead", {}, el("tr", {}, ...head.map((h, n) => cell("th", h, n)))),
      el("tbody", {}, ...rows.map((row) => el("tr", { className: row.className ?? "" }, ...row.cells.map((c, n) => cell("td", c, n))))),
    ),
  );
}

export function dropZone({ label, accept, take }) {
  const input = el("input", { type: "file", accept, id: id("file"), on: { change: () => input.files[0] && take(input.files[0]) } });
  const zone = el("div", { className: "drop" }, el("label", { text: label, htmlFor: input.id }), input);
  const over = (is) => (event) => {
    event.preventDefault();
    zone.classList.toggle("over", is);
  };
  zone.addEventListener("dragover", over(true));
  zone.addEventListener("dragleave", over(false));
  zone.addEventListener("drop", (event) => {
    over(false)(event);
    if (event.dataTransfer.files[0]) take(event.dataTransfer.files[0]);
  });
  return zone;
}

// The same by command line and in Python, with buttons to copy.
export function codeBox() {
  const parts = { shell: "Command line", python: "Python" };
  const boxes = Object.fromEntries(Object.keys(parts).map((key) => [key, el("pre", { tabIndex: 0 }, el("code"))]));
  const root = el(
    "details", { className: "card code" },
    el("summary", { text: "The same by command line and in Python" }),
    ...Object.entries(parts).map(([key, words]) => {
      boxes[key].setAttribute("aria-label", words);
      boxes[key].setAttribute("role", "region");
      const copy = el("button", { type: "button", className: "small", text: "Copy", "aria-label": `Copy: ${words}` });
      copy.addEventListener("click", async () => {
        await navigator.clipboard.writeText(boxes[key].textContent);
        copy.textContent = "Copied";
        setTimeout(() => (copy.textContent = "Copy"), 1500);
      });
      return el("div", {}, el("div", { className: "row" }, el("h3", { text: words }), copy), boxes[key]);
    }),
  );
  root.hidden = true; // until there is something to copy
  const show = (commands) => {
    Object.keys(parts).forEach((key) => (boxes[key].firstChild.textContent = commands[key]));
    root.hidden = false;
  };
  const hide = () => (root.hidden = true);
  return { root, show, hide };
}

// The library speaks to the command line; here its options have other names.
const NAMES = [
  ["--missing keep", "“Where a value is missing”, under “Order, people, gaps”"], ["--order", "“Order”"], ["--rows-in-order", "“Order”: the rows are in time order"], ["--by", "“People”"], ["--independent", "“Are people independent?”"], ["--restart", "“Restart”"], ["--bins", "“Bins”"],
  ["--clip A B", "“Numbers are cut to”"], ["--length", "“How many records”"], ["--id", "“Column that names the record”"], ["--column", "“Column with the values”"],
  ["--split", "“Share”"], ["--per", "“A row for each”"], ["--dp-epsilon", "“DP ε that it claims”"],
];
const here = (words) => NAMES.reduce((said, [option, name]) => said.replaceAll(option, name), words.replace(/--epsilon ([\w.+-]+)(?: --mechanism ([\w-]+))?/, (_, epsilon, mechanism) => `ε = ${epsilon}${mechanism ? ` (${mechanism})` : ""}`));
export const CANCELLED = "Cancelled.";
export const error = (words) => (words.startsWith(CANCELLED) ? note(words) : el("p", { className: "error", role: "alert", text: here(words) }));
// Where a charged answer lies, whatever becomes of this page; nothing where none was charged.
export const kept = (files) => {
  if (files === null) return [];
  if (!files.length) return [el("p", { className: "warning", text: "It could not be kept on disk: download it now." })];
  return [el("p", { className: "kept" }, "Kept on disk: ", el("code", { text: files.join(", ") }))];
};
export const note = (words) => el("p", { className: "note", text: words });

// Where a spreadsheet would run texts of a file as formulas.
export const formulas = (found) => (found.formulas ? [el("p", { className: "warning", text: `Warning: ${found.formulas}.` })] : []);

export function downloads(made, words) {
  return el(
    "ul", { className: "downloads" },
    ...made.names.map((name) =>
      el("li", {}, el("a", { className: "button", href: `api/made/${made.key}/${encodeURIComponent(name)}`, download: name, text: words[name] ?? words["*"] ?? name })),
    ),
  );
}
