// The tabs of the page. A tab is made when it is first entered.

import { onTheme } from "./charts.js";
import { error } from "./dom.js";
import { Shared } from "./source.js";

const names = ["plan", "tables", "redact", "flips", "flows", "leakage", "streams", "audit", "ledger"];
const makers = Object.fromEntries(names.map((name) => [name, () => import(`./tabs/${name}.js`)]));
const views = {};
const tabs = [...document.querySelectorAll("[role=tab]")];
let shared;

async function enter(name, focus = false) {
  for (const tab of tabs) {
    const mine = tab.getAttribute("aria-controls") === name;
    tab.setAttribute("aria-selected", String(mine));
    tab.tabIndex = mine ? 0 : -1;
    document.getElementById(tab.getAttribute("aria-controls")).hidden = !mine;
    if (mine) tab.scrollIntoView({ block: "nearest", inline: "nearest" });
    if (mine && focus) tab.focus();
  }
  if (location.hash.slice(1) !== name) history.replaceState(null, "", `#${name}`);
  const panel = document.getElementById(name);
  try {
    if (!views[name]) views[name] = (await makers[name]()).make(panel, shared);
    (await views[name]).enter?.();
  } catch (problem) {
    panel.replaceChildren(error(problem.message));
  }
}

for (const [n, tab] of tabs.entries()) {
  tab.addEventListener("click", () => enter(tab.getAttribute("aria-controls")));
  tab.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const to = step ? (n + step + tabs.length) % tabs.length : { Home: 0, End: tabs.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    enter(tabs[to].getAttribute("aria-controls"), true);
  });
}

const started = await (await fetch("api/start")).json();
document.getElementById("version").textContent = started.version;
shared = new Shared(started);
onTheme(() => Object.values(views).forEach(async (view) => (await view).redraw?.()));
addEventListener("hashchange", () => location.hash.slice(1) in makers && enter(location.hash.slice(1)));
// A file that misses its drop zone must not replace the page.
for (const name of ["dragover", "drop"]) addEventListener(name, (event) => event.preventDefault());
await enter(location.hash.slice(1) in makers ? location.hash.slice(1) : "plan");
document.documentElement.dataset.ready = "true";
