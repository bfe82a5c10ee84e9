// Draws Vega-Lite without evaluating any text as code, so the page needs no exception from its security policy.

const dark = matchMedia("(prefers-color-scheme: dark)");
export const theme = () => (dark.matches ? "dark" : "light");
export const onTheme = (act) => dark.addEventListener("change", act);

let interpreter;
const refuse = () => Promise.reject(new Error("charts load nothing"));

const nothing = () => quiet;
const quiet = { level: nothing, error: nothing, warn: nothing, info: nothing, debug: nothing };

// Lines end where the axis does.
const clipped = (part) => ({ ...part, layer: part.layer?.map((layer) => (typeof layer.mark === "object" && layer.mark.type !== "text" ? { ...layer, mark: { ...layer.mark, clip: true } } : layer)) });

const views = new WeakMap();

export async function draw(node, spec) {
  if (!spec) return;
  interpreter ??= (await import("./vendor/vega-interpreter.js")).expressionInterpreter;
  const few = (spec.layer ?? []).every((layer) => (layer.encoding?.x?.sort?.length ?? 0) <= 8);
  const wide = Math.max(280, Math.min(node.clientWidth || 640, 860));
  const sized = "concat" in spec ? { ...spec } : { ...clipped(spec), width: wide, autosize: { type: "fit-x", contains: "padding" } };
  if ("concat" in spec) sized.concat = spec.concat.map((part) => ({ ...clipped(part), width: wide - 110 }));
  const axis = { ...spec.config?.axis, gridOpacity: 0.6, labelFontSize: 12, titleFontSize: 12 };
  const legend = { ...spec.config?.legend, labelFontSize: 12 };
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
  inner.setAttribute("aria-hidden", "true");
  node.setAttribute("role", "img");
  node.setAttribute("aria-label", spec.description ?? "chart");
  node.replaceChildren(inner);
  views.get(node)?.finalize();
  views.set(node, view);
}
