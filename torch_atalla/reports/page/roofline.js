// The roofline: operations per cycle over operations per byte of DRAM, one dot per launch.
R.views.roofline = {
  title: "Roofline",
  has: () => R.doc.dots.length > 0,
  build(section) {
    const { dots, losses, limits, timeline } = R.doc, host = el("div");
    const finite = dots.filter((dot) => dot.intensity > 0 && dot.rate > 0);
    const ridge = limits.array / limits.dram;
    this.x0 = Math.floor(Math.log10(Math.min(0.1, ...finite.map((dot) => dot.intensity))));
    this.x1 = Math.ceil(Math.log10(Math.max(ridge * 4, ...finite.map((dot) => dot.intensity))));
    this.y0 = Math.floor(Math.log10(Math.min(1, ...finite.map((dot) => dot.rate))));
    this.y1 = Math.log10(limits.array) + 0.35;
    this.longest = Math.max(...dots.map((dot) => timeline.spans[dot.span].alone));
    section.append(host);
    this.plot = new Plot(host, {
      label: "Roofline of all launches", height: 460, left: 0, movable: false, world: () => ({ x0: 0, x1: 1, y0: 0, y1: 0 }),
      draw: (plot, context) => this.draw(plot, context), pick: (x, y) => this.pick(x, y),
    });
    this.plot.key = (event) => {
      const by = { n: 1, p: -1, ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!by) return;
      event.preventDefault();
      const at = dots.findIndex((dot) => dot.span === this.chosen);
      R.go("roofline", "span", dots[(at + by + dots.length) % dots.length].span);
    };
    section.append(
      R.legend(["array", "array: multiply-accumulates", "circle"], ["vector", "vector unit: lane operations", "triangle"], ["sdma", "data movement only"]),
      el("p", { class: "quiet" }, `Larger marks are longer launches. Limits: array ${number(limits.array)} MAC per cycle, vector unit ` +
        `${number(limits.vector)} lane operations per cycle, DRAM ${limits.dram} bytes per cycle. Launches without DRAM traffic are at ` +
        "the right edge, launches without operations at the bottom. Arrow keys select launches."));
    this.panel = el("div", { "aria-live": "polite" });
    section.append(this.panel, el("h2", {}, "Largest losses"),
      el("ol", {}, losses.slice(0, 3).map((loss) => el("li", {}, el("b", {}, loss.title), ": " + loss.text))));
  },
  frame() { return { left: 62, right: this.plot.w - 58, top: 14, bottom: this.plot.h - 70 }; },
  place(dot) {
    const f = this.frame();
    const x = dot.intensity === null ? f.right + 28 : dot.intensity > 0 ? this.x(Math.log10(dot.intensity)) : f.left + 12;
    return [x, dot.rate > 0 ? this.y(Math.log10(dot.rate)) : f.bottom + 14];
  },
  x(log) { const f = this.frame(); return f.left + (f.right - f.left) * (log - this.x0) / (this.x1 - this.x0); },
  y(log) { const f = this.frame(); return f.bottom - (f.bottom - f.top) * (log - this.y0) / (this.y1 - this.y0); },
  radius(dot) { return 4 + 7 * Math.sqrt(R.doc.timeline.spans[dot.span].alone / this.longest); },
  draw(plot, context) {
    const f = this.frame(), { limits, dots } = R.doc;
    const power = (k) => k < 0 ? (10 ** k).toFixed(-k) : number(10 ** k);
    context.textAlign = "center";
    const every = (f.right - f.left) / (this.x1 - this.x0) < 40 ? 2 : 1;
    for (let k = this.x0; k <= this.x1; k++) {
      context.fillStyle = R.color("line");
      context.fillRect(this.x(k), f.top, 1, f.bottom - f.top);
      context.fillStyle = R.color("quiet");
      if ((k - this.x0) % every === 0 && k < this.x1) context.fillText(power(k), this.x(k), f.bottom + 34);
    }
    context.fillText("operations per byte of DRAM", (f.left + f.right) / 2, f.bottom + 54);
    context.fillText("no DRAM", f.right + 28, f.bottom + 34);
    context.fillStyle = R.color("line");
    context.fillRect(f.left, f.bottom, plot.w - f.left - 4, 1);
    context.textAlign = "right";
    for (let k = this.y0; k <= this.y1; k++) {
      context.fillStyle = R.color("line");
      context.fillRect(f.left, this.y(k), f.right - f.left, 1);
      context.fillStyle = R.color("quiet");
      context.fillText(power(k), f.left - 6, this.y(k));
    }
    context.fillText("none", f.left - 6, f.bottom + 15);
    context.save();
    context.translate(11, (f.top + f.bottom) / 2);
    context.rotate(-Math.PI / 2);
    context.textAlign = "center";
    context.fillText("operations per cycle", 0, 0);
    context.restore();
    for (const [name, limit] of [["array", limits.array], ["vector", limits.vector]]) {
      const ridge = Math.log10(limit / limits.dram), y = this.y(Math.log10(limit));
      context.strokeStyle = R.color(name);
      context.lineWidth = 2.5;
      context.setLineDash(name === "vector" ? [7, 4] : []);
      context.beginPath();
      if (name === "array") context.moveTo(this.x(this.x0), this.y(this.x0 + Math.log10(limits.dram)));
      context.lineTo(this.x(ridge), y);
      context.lineTo(plot.w - 4, y);
      context.save();
      context.beginPath();
      context.rect(f.left, f.top, plot.w - f.left, f.bottom - f.top);
      context.clip();
      context.beginPath();
      if (name === "array") context.moveTo(this.x(this.x0), this.y(this.x0 + Math.log10(limits.dram)));
      context.lineTo(this.x(ridge), y);
      context.lineTo(plot.w - 4, y);
      context.stroke();
      context.restore();
      context.setLineDash([]);
      context.fillStyle = R.color("text");
      context.textAlign = "right";
      context.fillText(`${name === "array" ? "array" : "vector unit"}: ${number(limit)}`, plot.w - 8, y - 10);
    }
    for (const dot of dots) if (dot.span !== this.chosen) this.mark(context, dot, false);
    const chosen = dots.find((dot) => dot.span === this.chosen);
    if (chosen) this.mark(context, chosen, true);
    context.textAlign = "left";
  },
  mark(context, dot, chosen) {
    const [x, y] = this.place(dot), r = this.radius(dot);
    context.beginPath();
    if (dot.unit === "array") context.arc(x, y, r, 0, 2 * Math.PI);
    else if (dot.unit === "vector") { context.moveTo(x, y - r); context.lineTo(x + r, y + r); context.lineTo(x - r, y + r); context.closePath(); }
    else context.rect(x - r * 0.8, y - r * 0.8, r * 1.6, r * 1.6);
    context.globalAlpha = chosen ? 1 : 0.75;
    context.fillStyle = R.color(dot.unit || "sdma");
    context.fill();
    context.globalAlpha = 1;
    context.strokeStyle = R.color(chosen ? "chosen" : "back");
    context.lineWidth = chosen ? 3 : 1;
    context.stroke();
  },
  pick(px, py) {
    let best = null, least = 18;
    for (const dot of R.doc.dots) {
      const [x, y] = this.place(dot), away = Math.hypot(x - px, y - py);
      if (away < least) { least = away; best = dot; }
    }
    if (best) R.go("roofline", "span", best.span);
  },
  select(selection) {
    this.chosen = R.related(selection).span;
    this.plot.paint();
    R.chain(this.panel, selection);
  },
};
