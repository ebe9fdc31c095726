// The module tree: collapsible, searchable, with the cost of each module and all below it.
R.views.modules = {
  title: "Modules",
  has: () => R.doc.modules !== null,
  build(section) {
    const modules = R.doc.modules;
    this.children = modules.map(() => []);
    modules.forEach((module, i) => { if (module.parent !== null) this.children[module.parent].push(i); });
    this.open = new Set([0]);
    for (let at = 0; this.children[at].length === 1; at = this.children[at][0]) this.open.add(this.children[at][0]);
    if (modules.length <= 50) modules.forEach((_, i) => this.open.add(i));
    this.filter = "";
    const search = el("input", { type: "search", placeholder: "Search modules", "aria-label": "Search modules", input: () => {
      this.filter = search.value.trim().toLowerCase();
      this.draw();
    } });
    const all = (open) => () => {
      this.open = new Set(open ? modules.keys() : [0]);
      this.draw();
    };
    const head = ["Module", "Cycles", "Energy", "DRAM bytes", "Launches", "Host calls", "Ops", "On the chip"];
    this.body = el("tbody", { keydown: (event) => this.key(event) });
    section.append(
      el("div", { class: "bar" }, search, el("button", { click: all(true) }, "Expand all"), el("button", { click: all(false) }, "Collapse all")),
      el("div", { class: "scroll" }, el("table", { role: "treegrid", "aria-label": "Modules" },
        el("thead", {}, el("tr", {}, head.map((text, k) => el("th", { class: k === 5 || k === 6 ? "optional" : null }, text)))), this.body)),
      el("p", { class: "quiet" }, "Each row counts the module and all below it. A launch that computes nodes of several modules counts for the module of its last node."));
    this.draw();
  },
  select(selection) {
    if (selection?.kind !== "module") return;
    for (let at = R.doc.modules[selection.id]?.parent; at !== null && at !== undefined; at = R.doc.modules[at].parent) this.open.add(at);
    this.selected = selection.id;
    this.draw();
    this.body.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "center" });
  },
  draw() {
    const modules = R.doc.modules, rows = [];
    let wanted = null;
    if (this.filter) {
      wanted = new Set();
      modules.forEach((module, i) => {
        if (module.path.toLowerCase().includes(this.filter)) for (let at = i; at !== null; at = modules[at].parent) wanted.add(at);
      });
    }
    const visit = (i, level) => {
      if (wanted && !wanted.has(i)) return;
      rows.push(this.row(i, level, wanted !== null || this.open.has(i)));
      if (wanted || this.open.has(i)) this.children[i].forEach((child) => visit(child, level + 1));
    };
    visit(0, 0);
    this.body.replaceChildren(...rows);
  },
  row(i, level, open) {
    const module = R.doc.modules[i], share = module.cycles / Math.max(R.doc.modules[0].cycles, 1);
    const name = i ? module.path.split(".").pop() : "(model)", leaf = !this.children[i].length;
    const twist = el("button", {
      class: "twist", "aria-label": (open ? "Collapse " : "Expand ") + name, style: leaf ? "visibility:hidden" : null,
      click: () => this.toggle(i),
    }, open ? "▾" : "▸");
    const coverage = module.ops ? percent(module.native / module.ops) : "–";
    return el("tr", { "data-module": i, "aria-level": level + 1, "aria-expanded": leaf ? null : open, "aria-selected": i === this.selected },
      el("td", { style: `padding-left:${4 + 16 * level}px` }, twist, R.link("nodes", "module", i, name)),
      el("td", {}, number(module.cycles), el("span", { class: "share", "aria-hidden": true }, el("i", { style: `width:${100 * share}%` }))),
      el("td", {}, joules(module.joules)), el("td", {}, number(module.bytes)), el("td", {}, number(module.launches)),
      el("td", { class: "optional" }, number(module.host_calls)), el("td", { class: "optional" }, number(module.ops)),
      el("td", { class: module.native < module.ops ? "bad" : null }, coverage));
  },
  toggle(i) {
    this.open.has(i) ? this.open.delete(i) : this.open.add(i);
    this.draw();
    this.body.querySelector(`[data-module="${i}"] .twist`)?.focus();
  },
  key(event) {
    const row = event.target.closest("tr");
    if (!row) return;
    const i = Number(row.dataset.module), open = this.open.has(i);
    if ((event.key === "ArrowRight" && !open) || (event.key === "ArrowLeft" && open)) this.toggle(i);
    const step = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
    if (!step) return;
    event.preventDefault();
    row[step]?.querySelector("a").focus();
  },
};
