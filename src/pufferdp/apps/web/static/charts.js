// Draws Vega-Lite without evaluating any text as code, so the page needs no exception from its security policy.

const dark = matchMedia("(prefers-color-scheme: dark)");
export const theme = () => (dark.matches ? "dark" : "light");
export const onTheme = (act) => dark.addEventListener("change", act);

// The library is large: it is fetched once the page can be used, and charts wait for it.
const script = (name) =>
  new Promise((done, failed) => {
    const node = document.createElement("script");
    node.src = `static/vendor/${name}`;
    node.onload = done;
    node.onerror = () => failed(new Error(`${name} did not load`));
    document.head.append(node);
  });
let library;
async function load() {
  await script("vega.min.js");
  const [{ expressionInterpreter }] = await Promise.all([import("./vendor/vega-interpreter.js"), script("vega-lite.min.js")]);
  return expressionInterpreter;
}

const refuse = () => Promise.reject(new Error("charts load nothing"));

const nothing = () => quiet;
const quiet = { level: nothing, error: nothing, warn: nothing, info: nothing, debug: nothing };

// Lines end where the axis does.
const clipped = (part) => ({ ...part, layer: part.layer?.map((layer) => (typeof layer.mark === "object" && layer.mark.type !== "text" ? { ...layer, mark: { ...layer.mark, clip: true } } : layer)) });

// Titles break into lines where they are longer than their side of the chart: Vega would cut them off.
const LETTER = 6.6, HIGH = 180, NARROW = 480;
function lines(text, width) {
  const most = Math.max(12, Math.floor(width / LETTER));
  if (typeof text !== "string" || text.length <= most) return text;
  const out = [""];
  for (const word of text.split(" ")) {
    const last = out.length - 1;
    if (out[last] && out[last].length + 1 + word.length > most) out.push(word);
    else out[last] += (out[last] ? " " : "") + word;
  }
  return out;
}
function titled(part, wide, high) {
  const axis = (channel, width) => (channel?.title ? { ...channel, title: lines(channel.title, width) } : channel);
  const out = { ...part };
  if (typeof part.title === "string") out.title = lines(part.title, 0.88 * wide);
  else if (part.title?.text) out.title = { ...part.title, text: lines(part.title.text, 0.88 * wide) };
  if (part.encoding?.x || part.encoding?.y) out.encoding = { ...part.encoding, ...(part.encoding.x ? { x: axis(part.encoding.x, wide - 110) } : {}), ...(part.encoding.y ? { y: axis(part.encoding.y, high) } : {}) };
  if (part.layer) out.layer = part.layer.map((layer) => titled(layer, wide, high));
  return out;
}

const views = new WeakMap(), turns = new WeakMap(), drawn = new WeakMap();

// How wide a chart is drawn. A window that changes by more than a scrollbar has its charts drawn anew: shrunk letters cannot be read.
const width = (node) => Math.max(280, Math.min(node.clientWidth || 640, 860));
const SCROLLBAR = 24;
const watched = new ResizeObserver((changes) => {
  for (const { target } of changes) {
    const before = drawn.get(target);
    if (before && target.clientWidth && Math.abs(width(target) - before.wide) > SCROLLBAR) draw(target, before.spec);
  }
});

export async function draw(node, spec) {
  if (!spec) return;
  const turn = (turns.get(node) ?? 0) + 1;
  turns.set(node, turn);
  const interpreter = await (library ??= load());
  await new Promise(requestAnimationFrame); // the words first: they are what was asked for
  if (turns.get(node) !== turn) return; // a newer chart is on its way
  const few = (spec.layer ?? []).every((layer) => (layer.encoding?.x?.sort?.length ?? 0) <= 8);
  const wide = width(node);
  drawn.set(node, { spec, wide });
  const fitted = (part) => titled(clipped(part), wide, typeof part.height === "number" ? part.height : HIGH);
  const sized = "concat" in spec ? titled(spec, wide, HIGH) : { ...fitted(spec), width: wide, padding: { left: 5, top: 5, bottom: 5, right: wide < NARROW ? 28 : 5 }, autosize: { type: "fit-x", contains: "padding" } };
  if ("concat" in spec) sized.concat = spec.concat.map((part) => ({ ...fitted(part), width: wide - 110 }));
  const axis = { ...spec.config?.axis, gridOpacity: 0.6, labelFontSize: 12, titleFontSize: 12, labelBound: 8 };
  const legend = { ...spec.config?.legend, labelFontSize: 12, ...(wide < NARROW ? { columns: 1, labelLimit: wide - 60 } : {}) };
  const config = { ...spec.config, axis, legend, ...(few ? { axisXDiscrete: { labelAngle: 0 } } : {}) };
  const compiled = vegaLite.compile({ ...sized, config, background: "transparent" }, { logger: quiet }).spec;
  const view = new vega.View(vega.parse(compiled, null, { ast: true }), {
    renderer: "svg",
    expr: interpreter,
    loader: { load: refuse, sanitize: refuse, http: refuse, file: refuse },
    hover: false,
    logLevel: vega.Error,
  });
  const inner = document.createElement("div");
  await view.initialize(inner).runAsync();
  if (turns.get(node) !== turn) return view.finalize();
  inner.setAttribute("aria-hidden", "true");
  node.setAttribute("role", "img");
  node.setAttribute("aria-label", spec.description ?? "chart");
  node.replaceChildren(inner);
  views.get(node)?.finalize();
  views.set(node, view);
  watched.observe(node);
}
