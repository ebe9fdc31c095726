// The memory plan over the instructions of a run: the arena in DRAM.
R.views.memory = {
  title: "Memory",
  has: () => R.doc.memory !== null,
  build(section) {
    const plan = R.doc.memory;
    const facts = { "Arena": bytes(plan.arena_bytes), "Lower bound": bytes(plan.lower_bound), "Without reuse": bytes(plan.without_reuse),
      "Temporaries": number(plan.pieces.length), "Weights": bytes(plan.weights), "Mutable buffers": bytes(plan.states) };
    section.append(el("dl", { class: "facts" }, Object.entries(facts).map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)))));
    this.plots = [];
    this.chart(section, "Arena in DRAM", plan.arena_bytes, plan.pieces.map((piece) => ({ piece, offset: piece.offset })), true);
    section.append(R.legend(["none", "temporary"], ["array", "bytes that live at each instruction"], ["fallback", "lower bound: no plan needs less", "dashed"]));
    this.panel = el("div", { "aria-live": "polite" });
    section.append(this.panel);
  },
  chart(section, title, total, boxes, live) {
    const host = el("div"), plan = R.doc.memory, n = Math.max(plan.live.length, 1);
    section.append(el("h2", {}, title), host);
    if (!boxes.length) { host.append(el("p", {}, "No temporaries.")); return; }
    const plot = new Plot(host, {
      label: title, height: live ? 320 : 220, left: 84,
      world: () => ({ x0: 0, x1: n, y0: 0, y1: 0 }),
      draw: (plot, context) => this.draw(plot, context, total, boxes, live),
      pick: (px, py) => this.pick(plot, px, py, total, boxes),
    });
    plot.most = 200;
    this.plots.push(plot);
    host.before(plot.buttons());
  },
  rect(plot, total, { piece, offset }) {
    const scale = plot.high() / Math.max(total, 1);
    const x = plot.px(piece.first), y = 12 + plot.high() - (offset + piece.bytes) * scale;
    return [x, y, Math.max(plot.px(piece.last + 1) - x - 1, 1), Math.max(piece.bytes * scale - 1, 1)];
  },
  draw(plot, context, total, boxes, live) {
    const h = plot.high(), plan = R.doc.memory, scale = h / Math.max(total, 1), bottom = 12 + h;
    plot.axis(context, "bytes", total);
    context.textAlign = "left";
    context.save();
    context.beginPath();
    context.rect(plot.left, 0, plot.w - plot.left, plot.h);
    context.clip();
    for (const box of boxes) {
      const [x, y, w, high] = this.rect(plot, total, box);
      context.fillStyle = R.color("none");
      context.fillRect(x, y, w, high);
      context.strokeStyle = R.color("back");
      context.lineWidth = 1;
      context.strokeRect(x, y, w, high);
      if (box.piece === this.chosen) {
        context.strokeStyle = R.color("chosen");
        context.lineWidth = 3;
        context.strokeRect(x + 1.5, y + 1.5, w - 3, high - 3);
      }
      context.fillStyle = R.color("ink");
      const shown = Math.max(x, plot.left);
      if (high > 13) Plot.text(context, box.piece.name, shown + 4, y + high / 2, x + w - shown - 8);
    }
    if (live) this.line(plot, context, plan, bottom, scale);
    context.restore();
    context.fillStyle = R.color("quiet");
    for (const tick of Plot.ticks(plot.wx(plot.left), plot.wx(plot.w), (plot.w - plot.left) / 90)) {
      if (Number.isInteger(tick)) context.fillText(number(tick), plot.px(tick) + 2, bottom + 12);
    }
    context.textAlign = "center";
    context.fillText("instruction", plot.left + (plot.w - plot.left) / 2, bottom + 28);
    context.textAlign = "left";
  },
  line(plot, context, plan, bottom, scale) {
    context.strokeStyle = R.color("array");
    context.lineWidth = 2.5;
    context.beginPath();
    plan.live.forEach((n, i) => {
      const y = bottom - n * scale;
      context.lineTo(plot.px(i), y);
      context.lineTo(plot.px(i + 1), y);
    });
    context.stroke();
    context.strokeStyle = R.color("fallback");
    context.setLineDash([6, 4]);
    context.beginPath();
    context.moveTo(plot.left, bottom - plan.lower_bound * scale);
    context.lineTo(plot.w, bottom - plan.lower_bound * scale);
    context.stroke();
    context.setLineDash([]);
  },
  pick(plot, px, py, total, boxes) {
    const hit = boxes.findLast((box) => {
      const [x, y, w, h] = this.rect(plot, total, box);
      return px >= x && px <= x + w && py >= y && py <= y + h;
    });
    if (!hit) return;
    R.go("memory", "instruction", hit.piece.first);
    this.wanted = hit.piece;
  },
  select(selection) {
    const { instruction } = R.related(selection);
    const written = R.doc.memory.pieces.filter((piece) => piece.first === instruction);
    this.chosen = instruction === null ? null : written.find((piece) => piece === this.wanted) ?? written[0] ?? null;
    this.wanted = null;
    this.plots.forEach((plot) => plot.paint());
    R.chain(this.panel, selection);
    if (!this.chosen) return;
    const { name, bytes: size, first, last, offset } = this.chosen;
    this.panel.prepend(el("p", {}, el("b", {}, name), `: ${bytes(size)} at ${number(offset)} of the arena, from `,
    R.link("memory", "instruction", first, `instruction ${first}`), " to ", R.link("nodes", "instruction", last, `instruction ${last}`)));
  },
};
