// The chain of a selection: line of Python, ATen op, launch, chip code. Each link is linked with all views.
R.callsOf = (nodes) => R.doc.code ? R.doc.code.calls.map((call, i) => [call, i]).filter(([call]) => nodes.includes(call.node)) : [];

R.chain = (host, selection) => {
  host.replaceChildren();
  const related = R.related(selection), { program } = R.doc;
  const span = R.doc.timeline.spans[related.span], inst = program?.instructions[related.instruction], node = program?.nodes[related.node];
  if (!span && !inst && !node) return;
  const go = (...links) => el("div", { class: "go" }, links);
  const parts = [];
  if (node) {
    const module = R.doc.modules.findIndex((m) => m.path === node.module);
    parts.push(el("div", { class: "python" }, el("h3", {}, "Python"), el("span", { class: "mono" }, node.source || "no line recorded"),
      el("div", {}, "in ", module >= 0 ? R.link("modules", "module", module, node.module || "(model)") : node.module)));
    const all = inst ? inst.nodes : [related.node];
    parts.push(el("div", { class: "aten" }, el("h3", {}, "ATen"), el("ul", {}, (all.includes(related.node) ? all : [related.node, ...all]).map((i) => {
      const n = program.nodes[i];
      return el("li", {}, R.link("nodes", "node", i, n.name), " ", el("span", { class: "mono" }, n.op), i === related.node && all.length > 1 ? " (selected)" : "");
    })), node.native ? el("div", { class: "quiet" }, `segment ${program.segments[node.segment]}`) : el("div", { class: "bad" }, `on the host: ${node.reason}`),
    R.doc.layouts ? go(R.link("graph", "node", related.node, "in the graph")) : null));
  }
  if (inst || span) parts.push(R.launchPart(inst, span, related, go));
  else if (node) parts.push(el("div", {}, el("h3", {}, "Launch"), node.view ? "None: a view moves no data." : "None is recorded for this node."));
  if (R.doc.code && node) {
    const calls = R.callsOf(inst ? inst.nodes : [related.node]);
    parts.push(el("div", { class: "code" }, el("h3", {}, "Atalla code"), calls.length ? calls.map(([call, i]) => R.callPart(call, i)) : "No call: the code of another node computes it."));
  }
  host.append(el("div", { class: "chain" }, parts));
};

R.launchPart = (inst, span, related, go) => {
  const rows = [];
  if (span) {
    const units = ["sdma", "vector", "array"].filter((unit) => span[unit][2]).map((unit) => `${unit} ${number(span[unit][2])}`);
    rows.push(`${number(span.alone)} cycles, from ${number(span.start)} to ${number(span.end)}`,
      units.length ? "busy cycles: " + units.join(", ") : "no unit is busy",
      `DRAM: ${number(span.read)} bytes read, ${number(span.written)} written` + (span.macs ? `; ${number(span.macs)} MACs` : "") + (span.joules ? `; ${joules(span.joules)}` : ""));
  }
  const links = [];
  if (span) links.push(R.link("timeline", "span", related.span, "in the timeline"));
  if (span && span.kind === "launch") links.push(R.link("roofline", "span", related.span, "in the roofline"));
  if (inst && R.doc.memory) links.push(R.link("memory", "instruction", related.instruction, "in memory"));
  if (inst && R.doc.layouts) links.push(R.link("graph", "instruction", related.instruction, "in the graph after fusion"));
  const shape = span ? `${span.dtype}[${span.shape.join(", ")}]` : inst ? `${inst.dtype}[${inst.shape.join(", ")}]` : "";
  return el("div", { class: "launch" }, el("h3", {}, inst?.kind === "host_call" ? "Host call" : "Launch"),
    el("b", {}, span ? span.name : inst.kernel), " ", el("span", { class: "mono" }, shape), rows.map((row) => el("div", {}, row)), go(...links));
};

R.callPart = (call, i) => {
  const stalls = Object.entries(call.stalls), made = R.doc.code.functions[call.function];
  return el("div", {}, el("b", { class: "mono" }, call.function),
    el("div", {}, `call ${i}: ${number(call.cycles)} cycles, ${joules(call.joules)}, ${number(call.packets)} packets`),
    stalls.length ? el("ul", {}, stalls.slice(0, 4).map(([reason, n]) => el("li", {}, `${number(n)} cycles: ${reason}`))) : null,
    made ? el("details", {}, el("summary", {}, `Listing (${number(made.packets)} packets)`), el("pre", {}, made.listing +
      (made.packets > made.listing.split("\n").filter((line) => line.startsWith(" ")).length ? "\n    …" : ""))) : null);
};
