// The graph before fusion (ATen ops) and after it (launches and host calls).
R.views.graph = {
  title: "Graph",
  has: () => R.doc.layouts !== null,
  build(section) {
    this.after = false;
    const toggle = (after) => el("button", { "aria-pressed": after === this.after, "data-after": String(after), click: () => this.show(after) },
      after ? "After fusion" : "Before fusion");
    this.toggles = [toggle(false), toggle(true)];
    const { segments, nodes } = R.doc.program;
    const count = (number) => nodes.filter((node) => node.segment === number).length;
    const search = el("input", { type: "search", placeholder: "Find a node, op or kernel", "aria-label": "Find in the graph",
      keydown: (event) => { if (event.key === "Enter") this.find(search.value); } });
    const bar = el("div", { class: "bar" }, this.toggles, search);
    section.append(bar);
    const host = el("div");
    section.append(host);
    this.plot = new Plot(host, {
      label: "Graph of the model", height: 560, zoomY: true, most: 240,
      world: () => ({ x0: -0.3, x1: this.layout().width + 0.3, y0: -0.8, y1: this.layout().height * 0.5 + 0.4 }),
      startScale: (all) => Math.min(Math.max(all, 112), 180),
      draw: (plot, context) => this.draw(plot, context),
      pick: (x, y) => this.pick(x, y),
      step: (by) => this.step(by),
    });
    section.insertBefore(this.plot.buttons(), host);
    section.append(R.legend(["accent", "runs on the chip"], ["fallback", "runs on the host", "dashed"], ["none", "view, costs nothing"]));
    section.append(el("p", { class: "quiet" }, "Segments: " + segments.map((name, i) => `${name} (${count(i)} nodes)`).join(", ") +
      `. ${nodes.length} nodes become ${R.doc.program.instructions.length} launches and host calls.`));
    this.panel = el("div", { "aria-live": "polite" });
    section.append(this.panel);
  },
  layout() { return R.doc.layouts[this.after ? 1 : 0]; },
  chosen() { return this.after ? R.related(this.selection).instruction : R.related(this.selection).node; },
  // The address may select a node or an instruction; the graph shows what corresponds to it.
  select(selection) {
    this.selection = selection;
    if (selection?.kind === "instruction" || selection?.kind === "span") this.after = true;
    if (selection?.kind === "node") this.after = false;
    this.refresh();
    R.chain(this.panel, selection);
  },
  show(after) {
    const related = R.related(this.selection), id = after ? related.instruction : related.node;
    this.after = after;
    if (id !== null) R.go("graph", after ? "instruction" : "node", id);
    this.refresh();
  },
  refresh() {
    this.toggles.forEach((button) => button.setAttribute("aria-pressed", String(this.after) === button.dataset.after));
    const id = this.chosen();
    if (this.shown !== this.after && this.plot.w) this.plot.fit();
    this.shown = this.after;
    if (id !== null && this.layout().nodes[id]) this.plot.center(...this.spot(id));
    else this.plot.paint();
  },
  spot(i) { const [x, y] = this.layout().nodes[i]; return [x, y * 0.5]; },
  box(i) {
    if (!this.after) {
      const node = R.doc.program.nodes[i];
      return { title: node.op.replace("aten::", ""), text: node.name, native: node.native, free: node.view };
    }
    const inst = R.doc.program.instructions[i], node = inst.node === null ? null : R.doc.program.nodes[inst.node];
    const more = inst.nodes.length > 1 ? ` (${inst.nodes.length} nodes)` : "";
    return { title: inst.kernel, text: (node ? node.name : "") + more, native: inst.kind !== "host_call", free: false };
  },
  draw(plot, context) {
    const layout = this.layout(), s = plot.scale, w = 0.88 * s, h = 0.3 * s, chosen = this.chosen();
    const near = new Set();
    context.lineWidth = 1;
    for (const [a, b, points] of layout.edges) {
      const ends = ([x, y], by) => [plot.px(x), plot.py(y * 0.5) + by * h / 2];
      const line = [ends(layout.nodes[a], 1), ...points.flatMap((point) => [ends(point, -1), ends(point, 1)]), ends(layout.nodes[b], -1)];
      if (Math.max(line[0][1], line.at(-1)[1]) < 0 || Math.min(line[0][1], line.at(-1)[1]) > plot.h) continue;
      const lit = a === chosen || b === chosen;
      if (lit) near.add(a === chosen ? b : a);
      context.strokeStyle = R.color(lit ? "chosen" : "none");
      context.lineWidth = lit ? 2 : 1;
      context.beginPath();
      context.moveTo(...line[0]);
      for (let k = 1; k < line.length; k++) {
        const [x0, y0] = line[k - 1], [x1, y1] = line[k], middle = (y0 + y1) / 2;
        context.bezierCurveTo(x0, middle, x1, middle, x1, y1);
      }
      context.stroke();
    }
    const size = Math.min(13, Math.max(0.105 * s, 0));
    for (let i = 0; i < layout.nodes.length; i++) {
      const [x, y] = this.spot(i), cx = plot.px(x), cy = plot.py(y);
      if (cx < -w || cx > plot.w + w || cy < -h || cy > plot.h + h) continue;
      const box = this.box(i), border = !box.native ? "fallback" : box.free ? "none" : "accent";
      context.beginPath();
      context.roundRect(cx - w / 2, cy - h / 2, w, h, Math.min(6, h / 4));
      context.fillStyle = R.color(box.free ? "back" : "panel");
      context.fill();
      context.setLineDash(box.native ? [] : [5, 3]);
      context.strokeStyle = R.color(i === chosen ? "chosen" : border);
      context.lineWidth = i === chosen ? 3.5 : near.has(i) ? 2.5 : 1.5;
      context.stroke();
      context.setLineDash([]);
      if (size < 6) continue;
      context.textAlign = "center";
      context.fillStyle = R.color(box.free ? "quiet" : "text");
      context.font = `600 ${size}px system-ui, sans-serif`;
      Plot.text(context, box.title, cx, cy - h * 0.2, w - 18);
      context.font = `${size * 0.92}px system-ui, sans-serif`;
      context.fillStyle = R.color("quiet");
      Plot.text(context, box.text, cx, cy + h * 0.22, w - 18);
    }
    context.textAlign = "left";
  },
  pick(px, py) {
    const s = this.plot.scale, hit = this.layout().nodes.findIndex((_, i) => {
      const [x, y] = this.spot(i);
      return Math.abs(this.plot.px(x) - px) < 0.44 * s && Math.abs(this.plot.py(y) - py) < 0.15 * s;
    });
    if (hit >= 0) R.go("graph", this.after ? "instruction" : "node", hit);
  },
  step(by) {
    const n = this.layout().nodes.length, id = this.chosen();
    R.go("graph", this.after ? "instruction" : "node", ((id === null ? (by > 0 ? -1 : 0) : id) + by + n) % n);
  },
  find(text) {
    const wanted = text.trim().toLowerCase(), n = this.layout().nodes.length, from = (this.chosen() ?? -1) + 1;
    for (let k = 0; wanted && k < n; k++) {
      const i = (from + k) % n, box = this.box(i);
      if (`${box.title} ${box.text}`.toLowerCase().includes(wanted)) return R.go("graph", this.after ? "instruction" : "node", i);
    }
  },
};
