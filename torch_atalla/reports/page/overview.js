// The overview: facts, the three largest losses in words, and the reason for each fallback.
R.views.overview = {
  title: "Overview",
  has: () => true,
  build(section) {
    const { facts, coverage, losses, program } = R.doc;
    const rows = Object.entries(facts);
    if (coverage) rows.push(["Ops on the chip", percent(coverage.ops)], ["FLOPs on the chip", percent(coverage.flops)]);
    section.append(el("dl", { class: "facts" }, rows.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)))));
    section.append(el("h2", {}, "Largest losses"));
    for (const loss of losses.slice(0, 3)) {
      section.append(el("div", { class: "card loss" },
        el("h3", {}, `${loss.title}: ${percent(loss.share)}`),
        el("div", { class: "meter", "aria-hidden": true }, el("i", { style: `width:${100 * Math.min(loss.share, 1)}%` })),
        el("p", {}, loss.text),
        loss.spans.length ? el("p", { class: "quiet" }, "Most affected: ",
          loss.spans.slice(0, 5).flatMap((i, k) => [k ? ", " : "", R.link("timeline", "span", i, this.name(i))])) : null));
    }
    if (!losses.length) section.append(el("p", {}, "The run has no launches."));
    if (program) this.fallbacks(section, program);
  },
  name(i) {
    const span = R.doc.timeline.spans[i];
    const node = R.related({ kind: "span", id: i }).node;
    return span.name + (node === null ? ` (#${i})` : ` (${R.doc.program.nodes[node].name})`);
  },
  fallbacks(section, program) {
    const refused = program.nodes.map((node, i) => [node, i]).filter(([node]) => !node.native);
    section.append(el("h2", {}, "Fallbacks"));
    if (!refused.length) {
      section.append(el("p", {}, "All nodes run on the chip."));
      return;
    }
    section.append(el("div", { class: "scroll" }, el("table", { id: "fallbacks" },
      el("thead", {}, el("tr", {}, ["Node", "Op", "Line", "Reason"].map((head) => el("th", { class: "left" }, head)))),
      el("tbody", {}, refused.map(([node, i]) => el("tr", {},
        el("td", {}, R.link("nodes", "node", i, node.name)), el("td", { class: "left mono" }, node.op),
        el("td", { class: "left mono" }, node.source || "–"), el("td", { class: "left wrap" }, node.reason)))))));
  },
};
