// The timeline of the run: streams, the three units, and the DRAM traffic.
R.views.timeline = {
  title: "Timeline",
  has: () => true,
  build(section) {
    const { spans, cycles, clock_hz, lost } = R.doc.timeline;
    this.mhz = clock_hz / 1e6;
    const streams = [...new Set(spans.map((span) => span.stream))].filter((s) => s !== null).sort((a, b) => a - b);
    this.rows = [...streams.map((s) => ({ name: `stream ${s}`, stream: s })),
      { name: "SDMA", unit: "sdma" }, { name: "vector unit", unit: "vector" }, { name: "array", unit: "array" }];
    this.rows.forEach((row, k) => { row.top = 34 + 40 * k; row.height = 30; });
    this.rows.push({ name: "DRAM", dram: true, top: 34 + 40 * this.rows.length, height: 64 });
    const last = this.rows.at(-1), host = el("div");
    section.append(host);
    this.plot = new Plot(host, {
      label: "Timeline of the run", height: last.top + last.height + 14, left: 96,
      world: () => ({ x0: 0, x1: Math.max(cycles, 1) * 1.005, y0: 0, y1: 0 }),
      draw: (plot, context) => this.draw(plot, context),
      pick: (x, y) => this.pick(x, y),
      step: (by) => R.go("timeline", "span", ((this.chosen ?? (by > 0 ? -1 : 0)) + by + spans.length) % spans.length),
    });
    section.insertBefore(this.plot.buttons(), host);
    section.append(R.legend(["sdma", "SDMA busiest"], ["vector", "vector unit busiest"], ["array", "array busiest"], ["dram", "DRAM bytes per cycle"], ["none", "other"]));
    section.append(el("p", { class: "quiet" }, `${number(spans.length)} launches and copies in ${number(cycles)} cycles ` +
      `(${(cycles / this.mhz).toFixed(1)} µs at ${this.mhz} MHz). Time is simulated.` + (lost ? ` ${number(lost)} records were lost.` : "")));
    this.panel = el("div", { "aria-live": "polite" });
    section.append(this.panel);
    this.most = Math.max(R.doc.limits.dram, ...spans.map((span) => this.rate(span)));
  },
  rate(span) { return (span.read + span.written) / Math.max(span.sdma[1] - span.sdma[0], 1); },
  select(selection) {
    const related = R.related(selection);
    this.chosen = related.span;
    const span = R.doc.timeline.spans[this.chosen];
    if (span) this.reveal(span);
    else this.plot.paint();
    R.chain(this.panel, selection);
  },
  reveal(span) {
    const plot = this.plot;
    if (!plot.w) { plot.ready = () => this.reveal(span); return; }
    if (plot.px(span.start) < plot.left || plot.px(span.end) > plot.w) plot.center((span.start + span.end) / 2, 0);
    else plot.paint();
  },
  draw(plot, context) {
    const { spans } = R.doc.timeline, from = plot.wx(plot.left), to = plot.wx(plot.w);
    this.axis(plot, context, from, to);
    context.save();
    context.beginPath();
    context.rect(plot.left, 0, plot.w - plot.left, plot.h);
    context.clip();
    spans.forEach((span, i) => {
      if (span.end < from || span.start > to) return;
      for (const row of this.rows) {
        if (row.dram) this.bytes(plot, context, row, span, i);
        else if (row.unit ? span[row.unit][2] : span.stream === row.stream) this.bar(plot, context, row, span, i);
      }
    });
    context.restore();
    context.fillStyle = R.color("text");
    for (const row of this.rows) context.fillText(row.name, 10, row.top + row.height / 2);
    const dram = this.rows.at(-1);
    context.fillStyle = R.color("quiet");
    context.fillText("bytes/cycle", 10, dram.top + dram.height / 2 + 15);
    context.textAlign = "right";
    context.fillText(this.most.toFixed(1), plot.left - 6, dram.top + 4);
    context.fillText("0", plot.left - 6, dram.top + dram.height - 4);
    context.textAlign = "left";
  },
  axis(plot, context, from, to) {
    const ticks = Plot.ticks(from, to, (plot.w - plot.left) / 130);
    for (const tick of ticks) {
      const x = plot.px(tick);
      context.fillStyle = R.color("line");
      context.fillRect(x, 24, 1, plot.h - 32);
      context.fillStyle = R.color("quiet");
      const text = number(tick), wide = context.measureText(text).width;
      if (x + wide + 6 < plot.w) context.fillText(text, x + 3, 14);
    }
    context.fillStyle = R.color("quiet");
    context.fillText("cycles", 10, 14);
  },
  extent(row, span) { return row.stream !== undefined ? [span.start, span.end] : span[row.dram ? "sdma" : row.unit]; },
  bar(plot, context, row, span, i) {
    const [begin, end] = this.extent(row, span), x = plot.px(begin), w = Math.max(plot.px(end) - x - 1, 1);
    context.fillStyle = R.color(row.unit ?? R.busiest(span));
    context.fillRect(x, row.top, w, row.height);
    if (i === this.chosen) {
      context.strokeStyle = R.color("chosen");
      context.lineWidth = 3;
      context.strokeRect(x + 1, row.top + 1, Math.max(w - 2, 1), row.height - 2);
    }
    context.fillStyle = R.color("ink");
    const shown = Math.max(x, plot.left);
    if (w > 30) Plot.text(context, span.name, shown + 5, row.top + row.height / 2, x + w - shown - 10);
  },
  bytes(plot, context, row, span, i) {
    const high = row.height * this.rate(span) / this.most, [begin, end] = span.sdma;
    if (!high) return;
    context.fillStyle = R.color(i === this.chosen ? "chosen" : "dram");
    context.fillRect(plot.px(begin), row.top + row.height - high, Math.max(plot.px(end) - plot.px(begin) - 1, 1), high);
  },
  pick(px, py) {
    const row = this.rows.find((r) => py >= r.top && py <= r.top + r.height), at = this.plot.wx(px);
    if (!row) return;
    const slack = 2 / this.plot.scale;
    const hit = R.doc.timeline.spans.findIndex((span) => {
      if (row.stream !== undefined && span.stream !== row.stream) return false;
      const [begin, end] = this.extent(row, span);
      return end > begin && at >= begin - slack && at < end + slack;
    });
    if (hit >= 0) R.go("timeline", "span", hit);
  },
};
