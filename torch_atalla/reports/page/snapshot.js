// The page of a memory snapshot: for each device a chart of blocks over actions, and the stack of the selected block.
R.blocks = {
  build(main) {
    main.replaceChildren();
    R.doc.devices.forEach((device, number) => this.device(main, device, number));
    if (!R.doc.devices.length) main.append(el("p", {}, "The snapshot has neither segments nor actions. Record with torch.atalla.memory._record_memory_history()."));
    const blocks = R.doc.devices.reduce((n, device) => n + device.blocks.length, 0);
    document.getElementById("lead").textContent = `${R.doc.devices.map((device) => device.name).join(", ")} · ${number(blocks)} blocks`;
    document.body.dataset.ready = "true";
  },
  device(main, device, index) {
    const now = device.blocks.filter((block) => block.last === null);
    const reserved = device.segments.reduce((n, segment) => n + segment.bytes, 0);
    const facts = { "In use at the end": bytes(now.reduce((n, block) => n + block.bytes, 0)), "Peak in use": bytes(Math.max(0, ...device.used)),
      "Segments": `${device.segments.length}, ${bytes(reserved)}`, "Actions": number(device.actions) };
    const section = el("section", { id: `device-${index}` }, el("h2", {}, device.name),
      el("dl", { class: "facts" }, Object.entries(facts).map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)))));
    const host = el("div"), panel = el("div", { "aria-live": "polite" });
    const chart = { device, total: Math.max(reserved, 1), chosen: null, panel };
    main.append(section);
    section.append(host);
    chart.plot = new Plot(host, {
      label: `Blocks of ${device.name}`, height: 380, left: 92,
      world: () => ({ x0: 0, x1: Math.max(device.actions, 1), y0: 0, y1: 0 }),
      draw: (plot, context) => this.draw(chart, plot, context),
      pick: (x, y) => this.pick(chart, x, y),
      step: (by) => this.choose(chart, ((chart.chosen ?? (by > 0 ? -1 : 0)) + by + device.blocks.length) % device.blocks.length),
    });
    host.before(chart.plot.buttons());
    section.append(R.legend(["vector", "freed block"], ["sdma", "block in use at the end"], ["array", "bytes in use"]), panel);
    const largest = device.blocks.map((block, i) => [block, i]).sort((a, b) => b[0].bytes - a[0].bytes).slice(0, 10);
    section.append(el("h2", {}, "Largest blocks"), el("div", { class: "scroll" }, el("table", {},
      el("thead", {}, el("tr", {}, ["Allocated by", "Bytes", "From action", "To action", "Stream"].map((head) => el("th", {}, head)))),
      el("tbody", {}, largest.map(([block, i]) => el("tr", {},
        el("td", {}, el("button", { click: () => this.choose(chart, i) }, block.stack[0] ?? "(no stack recorded)")),
        el("td", {}, number(block.bytes)), el("td", {}, number(block.first)), el("td", {}, block.last === null ? "in use" : number(block.last)),
        el("td", {}, String(block.stream))))))));
  },
  rect({ device, total }, plot, block) {
    const h = plot.high(), x = plot.px(block.first), end = plot.px(block.last ?? Math.max(device.actions, 1));
    return [x, 12 + h * (1 - (block.place + block.bytes) / total), Math.max(end - x, 1), Math.max(h * block.bytes / total, 1)];
  },
  draw(chart, plot, context) {
    const { device, total } = chart, h = plot.high(), bottom = 12 + h;
    plot.axis(context, "KiB of all segments", total / 1024);
    context.fillText("action", plot.left + (plot.w - plot.left) / 2, bottom + 28);
    for (const tick of Plot.ticks(plot.wx(plot.left), plot.wx(plot.w), (plot.w - plot.left) / 90)) {
      if (Number.isInteger(tick) && plot.px(tick) < plot.w - 12) context.fillText(number(tick), plot.px(tick), bottom + 12);
    }
    context.textAlign = "left";
    context.save();
    context.beginPath();
    context.rect(plot.left, 0, plot.w - plot.left, plot.h);
    context.clip();
    device.blocks.forEach((block, i) => {
      const [x, y, w, high] = this.rect(chart, plot, block);
      context.fillStyle = R.color(block.last === null ? "sdma" : "vector");
      context.fillRect(x, y, w, high);
      context.strokeStyle = R.color(i === chart.chosen ? "chosen" : "back");
      context.lineWidth = i === chart.chosen ? 3 : 0.5;
      context.strokeRect(x, y, w, high);
      context.fillStyle = R.color("ink");
      if (high > 13) Plot.text(context, block.stack[0] ?? "", Math.max(x, plot.left) + 4, y + high / 2, x + w - Math.max(x, plot.left) - 8);
    });
    context.strokeStyle = R.color("array");
    context.lineWidth = 2.5;
    context.beginPath();
    device.used.forEach((n, i) => {
      context.lineTo(plot.px(i), bottom - h * n / total);
      context.lineTo(plot.px(i + 1), bottom - h * n / total);
    });
    context.stroke();
    context.restore();
  },
  pick(chart, px, py) {
    const hit = chart.device.blocks.findLastIndex((block) => {
      const [x, y, w, h] = this.rect(chart, chart.plot, block);
      return px >= x && px <= x + w && py >= y && py <= y + h;
    });
    if (hit >= 0) this.choose(chart, hit);
  },
  choose(chart, i) {
    const block = chart.device.blocks[i];
    chart.chosen = i;
    chart.plot.paint();
    chart.panel.replaceChildren(el("div", { class: "card" }, el("h3", {}, `${number(block.bytes)} bytes at 0x${block.address.toString(16)}`),
      el("p", {}, `From action ${number(block.first)} to ` + (block.last === null ? "the end" : `action ${number(block.last)}`) + `, stream ${block.stream}`),
      el("pre", {}, block.stack.join("\n") || "No stack was recorded.")));
  },
};

unpack().then((doc) => { R.doc = doc; R.blocks.build(document.getElementById("main")); });
