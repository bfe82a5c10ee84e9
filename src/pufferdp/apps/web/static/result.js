// A result as the library puts it into words: sections of sentences, tables and figures. Nothing is worked out here.

import { draw } from "./charts.js";
import { clear, el, table } from "./dom.js";

function block(part) {
  if (part.words) return part.words.map((words) => el("p", { text: words }));
  if (part.table) {
    const { caption, head, rows, left, below } = part.table;
    return [table(head, rows.map((cells) => ({ cells })), caption, left), below ? el("p", { className: "note", text: below }) : ""];
  }
  return [el("figure", {}, el("div", { className: "chart" }), el("figcaption", { text: part.caption }))];
}

// Shows a page in a node; its verdict is large, or its first sentence where there is none.
export function showPage(node, page, ...more) {
  const parts = page.sections.map((section) => el("section", {}, el("h3", { text: section.title }), ...section.blocks.flatMap(block)));
  clear(
    node,
    el("h2", { text: page.title }),
    ...page.verdict.map((words, n) => (n ? el("p", { text: words }) : el("p", { className: "verdict" }, el("strong", { text: words })))),
    el("p", { className: page.verdict.length ? "note" : "verdict", text: page.lead }),
    ...page.warnings.map((words) => el("p", { className: "warning", text: words })),
    el("div", { className: "shown" }, ...parts),
    ...more,
  );
  const charts = page.sections.flatMap((section) => section.blocks).filter((part) => part.chart);
  for (const [n, figure] of [...node.querySelectorAll("figure > .chart")].entries()) draw(figure, charts[n].chart);
}
