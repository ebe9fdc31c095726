// The state of the page: the document, the selection (which the address holds), and small helpers.
"use strict";
const R = { views: {}, doc: null };
const number = (n) => Math.round(n).toLocaleString("en-US");
const percent = (x) => (100 * x).toFixed(1) + "%";
const bytes = (n) => {
  const units = ["bytes", "KiB", "MiB", "GiB"];
  let k = 0;
  while (n >= 1024 && k < 3) { n /= 1024; k++; }
  return (k ? n.toFixed(1) : number(n)) + " " + units[k];
};

const joules = (x) => {
  for (const [unit, scale] of [["J", 1], ["mJ", 1e-3], ["µJ", 1e-6], ["nJ", 1e-9]]) if (x >= scale) return (x / scale).toPrecision(3) + " " + unit;
  return x ? (x / 1e-12).toPrecision(3) + " pJ" : "–";
};

// An element: tag, attributes (functions are listeners), children (texts and elements).
function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name, value);
    else if (typeof value === "boolean" && name.startsWith("aria-")) made.setAttribute(name, String(value));
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}
R.color = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
R.busiest = (span) => {
  const busy = ["sdma", "vector", "array"].map((unit) => [span[unit][2], unit]).sort((a, b) => b[0] - a[0]);
  return busy[0][0] ? busy[0][1] : "none";
};
R.legend = (...items) => el("div", { class: "legend" }, items.map(([color, text, shape]) =>
  el("span", {}, el("i", { class: shape, style: shape === "dashed" ? `border-color:var(--${color})` : `background:var(--${color})` }), text)));

// A selection is {kind: "node" | "instruction" | "span" | "module", id}. The address is #view/kind/id.
R.href = (view, kind, id) => `#${view}/${kind}/${id}`;
R.link = (view, kind, id, text) => el("a", { href: R.href(view, kind, id) }, text);
R.go = (view, kind, id) => { location.hash = R.href(view, kind, id); };
R.address = () => {
  const [view, kind, id] = decodeURIComponent(location.hash.slice(1)).split("/");
  return { view: R.views[view] && R.views[view].has() ? view : "overview", selection: kind ? { kind, id: Number(id) } : null };
};

// What belongs to a selection: number of the node, the instruction and the span; null if there is none.
R.related = (selection) => {
  const found = { node: null, instruction: null, span: null };
  if (!selection) return found;
  found[selection.kind] = selection.id;
  if (selection.kind === "span") found.instruction = R.doc.timeline.spans[selection.id]?.instruction ?? null;
  if (selection.kind === "node") found.instruction = R.doc.program.nodes[selection.id]?.instruction ?? null;
  if (found.instruction !== null) {
    found.span = found.span ?? R.spanOf.get(found.instruction) ?? null;
    found.node = found.node ?? R.doc.program.instructions[found.instruction].node;
  }
  return found;
};

async function unpack() {
  const packed = Uint8Array.from(atob(document.getElementById("data").textContent.trim()), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}
