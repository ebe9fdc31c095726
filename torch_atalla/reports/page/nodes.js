// All nodes as a list that can be searched, and the chain of the selected one. Without a program: all launches.
R.views.nodes = {
  title: "Nodes",
  has: () => true,
  build(section) {
    const { program, timeline } = R.doc;
    this.kind = program ? "node" : "span";
    this.items = program
      ? program.nodes.map((node, id) => ({ id, cells: [node.name, node.op, node.module, node.source, this.cycles(node)], bad: !node.native }))
      : timeline.spans.map((span, id) => ({ id, cells: [span.name, span.kind, `${span.dtype}[${span.shape.join(", ")}]`, `stream ${span.stream}`, number(span.alone)] }));
    this.items.forEach((item) => { item.text = item.cells.join(" ").toLowerCase(); });
    this.search = el("input", { type: "search", placeholder: "Search name, op, module, line", "aria-label": "Search nodes", input: () => this.filter() });
    this.count = el("span", { class: "quiet", "aria-live": "polite" });
    this.inner = el("div", { style: "position:relative" });
    this.list = el("div", { class: "list", scroll: () => this.draw(), keydown: (event) => this.key(event) }, this.inner);
    this.panel = el("div", { "aria-live": "polite" });
    section.append(el("div", { class: "bar" }, this.search, this.count), this.panel, this.list);
    this.filter();
    new ResizeObserver(() => this.draw()).observe(this.list);
  },
  cycles(node) {
    const span = node.instruction === null ? null : R.doc.timeline.spans[R.spanOf.get(node.instruction)];
    if (!span) return node.view ? "view" : "–";
    const own = R.doc.program.instructions[node.instruction].node;
    return R.doc.program.nodes[own] === node ? number(span.alone) : "fused";
  },
  filter() {
    const wanted = this.search.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    this.shown = this.items.filter((item) => wanted.every((word) => item.text.includes(word)) && (this.module === undefined || this.inModule(item)));
    this.count.textContent = `${number(this.shown.length)} of ${number(this.items.length)}` + (this.module ? ` in ${this.module}` : "");
    this.inner.style.height = 30 * this.shown.length + "px";
    this.draw();
  },
  inModule(item) {
    const path = R.doc.program.nodes[item.id].module;
    return !this.module || path === this.module || path.startsWith(this.module + ".");
  },
  draw() {
    const first = Math.max(Math.floor(this.list.scrollTop / 30) - 5, 0), last = first + Math.ceil((this.list.clientHeight || 420) / 30) + 10;
    this.inner.replaceChildren(...this.shown.slice(first, last).map((item, k) => el("a", {
      class: "row", href: R.href("nodes", this.kind, item.id), style: `top:${30 * (first + k)}px`, "data-id": item.id,
      "aria-current": item.id === this.chosen,
    }, item.cells.map((text, c) => el("span", { class: c === 1 ? "mono" : c === 4 && item.bad ? "bad" : null, title: text }, c === 4 && item.bad ? "host" : text || "–")))));
  },
  key(event) {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!by || !this.shown.length) return;
    event.preventDefault();
    const at = this.shown.findIndex((item) => item.id === this.chosen);
    R.go("nodes", this.kind, this.shown[Math.min(Math.max(at + by, 0), this.shown.length - 1)].id);
  },
  select(selection) {
    const module = selection?.kind === "module" ? R.doc.modules[selection.id]?.path : undefined;
    if (module !== this.module) { this.module = module; this.filter(); }
    this.chosen = this.kind === "node" ? R.related(selection).node : R.related(selection).span;
    const at = this.shown.findIndex((item) => item.id === this.chosen), top = 30 * at;
    if (at >= 0 && (top < this.list.scrollTop || top > this.list.scrollTop + this.list.clientHeight - 30)) {
      this.list.scrollTop = Math.max(top - 90, 0);
    }
    const focused = this.list.contains(document.activeElement);
    this.draw();
    if (focused) this.inner.querySelector("[aria-current=true]")?.focus({ preventScroll: true });
    R.chain(this.panel, selection);
  },
};
