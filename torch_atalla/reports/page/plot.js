// A canvas that can be moved and zoomed with mouse, touch and keyboard. World coordinates belong to the view.
class Plot {
  // options: label, height (pixels), world() -> {x0, x1, y0, y1}, draw(plot, context), pick(x, y) in pixels, step(direction)
  // and zoomY: whether zooming scales y as well (with the same factor).
  constructor(host, options) {
    Object.assign(this, options);
    this.canvas = el("canvas", { tabindex: 0, role: "img", "aria-label": options.label, style: `height:${options.height}px` });
    host.append(this.canvas);
    this.context = this.canvas.getContext("2d");
    this.left = options.left ?? 0;
    new ResizeObserver(() => this.resize()).observe(this.canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.paint());
    this.canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.pointer();
  }
  resize() {
    const { clientWidth: w, clientHeight: h } = this.canvas;
    if (!w) return;
    const fresh = this.w === undefined;
    this.w = w;
    this.h = h;
    this.canvas.width = w * devicePixelRatio;
    this.canvas.height = h * devicePixelRatio;
    if (fresh || this.fitted) this.fit();
    this.ready?.();
    this.ready = null;
    this.paint();
  }
  fit() {
    const world = this.world();
    this.scale = (this.w - this.left) / Math.max(world.x1 - world.x0, 1e-9);
    if (this.startScale) this.scale = this.startScale(this.scale);
    this.x = world.x0;
    this.y = world.y0;
    this.fitted = true;
    this.paint();
  }
  px(x) { return this.left + (x - this.x) * this.scale; }
  py(y) { return (y - this.y) * (this.zoomY ? this.scale : 1); }
  wx(px) { return this.x + (px - this.left) / this.scale; }
  zoom(factor, px = this.left + (this.w - this.left) / 2, py = this.h / 2) {
    const world = this.world(), all = (this.w - this.left) / (world.x1 - world.x0);
    const least = this.zoomY ? Math.min(all, (this.h / (world.y1 - world.y0))) * 0.8 : all;
    const scale = Math.min(Math.max(this.scale * factor, least), this.most ?? all * 4000);
    const x = this.wx(px), y = this.zoomY ? this.y + py / this.scale : 0;
    this.scale = scale;
    this.x = x - (px - this.left) / scale;
    if (this.zoomY) this.y = y - py / scale;
    this.move(0, 0);
  }
  move(dx, dy) {
    const world = this.world(), wide = (this.w - this.left) / this.scale;
    const slack = this.zoomY ? wide / 2 : 0;
    this.x = Math.max(world.x0 - slack, Math.min(this.x + dx / this.scale, Math.max(world.x1 - wide, world.x0) + slack));
    if (this.zoomY) {
      const high = this.h / this.scale;
      this.y = Math.max(world.y0 - high / 2, Math.min(this.y + dy / this.scale, world.y1 - high / 2));
    }
    this.fitted = false;
    this.paint();
  }
  center(x, y) {
    if (!this.w) {
      this.ready = () => this.center(x, y);
      return;
    }
    this.x = x - (this.w - this.left) / this.scale / 2;
    if (this.zoomY) this.y = y - this.h / this.scale / 2;
    this.move(0, 0);
  }
  wheel(event) {
    if (event.ctrlKey) this.zoom(Math.exp(-event.deltaY / 200), event.offsetX, event.offsetY);
    else if (this.zoomY) this.move(event.deltaX, event.deltaY);
    else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.move(event.deltaX, 0);
    else return;
    event.preventDefault();
  }
  key(event) {
    const by = 60, moves = { ArrowLeft: [-by, 0], ArrowRight: [by, 0], ArrowUp: [0, -by], ArrowDown: [0, by] };
    if (event.key === "+" || event.key === "=") this.zoom(1.4);
    else if (event.key === "-") this.zoom(1 / 1.4);
    else if (event.key === "0") this.fit();
    else if ((event.key === "n" || event.key === "p") && this.step) this.step(event.key === "n" ? 1 : -1);
    else if (moves[event.key]) this.move(...moves[event.key]);
    else return;
    event.preventDefault();
  }
  pointer() {
    let from = null, moved = 0;
    this.canvas.addEventListener("pointerdown", (event) => {
      from = [event.clientX, event.clientY];
      moved = 0;
      this.canvas.setPointerCapture(event.pointerId);
    });
    this.canvas.addEventListener("pointermove", (event) => {
      if (!from) return;
      const dx = from[0] - event.clientX, dy = from[1] - event.clientY;
      moved += Math.abs(dx) + Math.abs(dy);
      from = [event.clientX, event.clientY];
      if (moved > 4 && this.movable !== false) this.move(dx, dy);
    });
    this.canvas.addEventListener("pointerup", (event) => {
      if (from && moved <= 4) this.pick?.(event.offsetX, event.offsetY);
      from = null;
    });
  }
  paint() {
    if (!this.w || this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      const context = this.context;
      context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
      context.fillStyle = R.color("back");
      context.fillRect(0, 0, this.w, this.h);
      context.font = "12px system-ui, sans-serif";
      context.textBaseline = "middle";
      this.draw(this, context);
    });
  }
  // Height of a chart whose axes have room for their numbers and titles.
  high() { return this.h - 48; }
  // The y axis of a chart from 0 to `most`.
  axis(context, title, most) {
    const h = this.high(), bottom = 12 + h;
    context.textAlign = "right";
    for (const tick of Plot.ticks(0, most, 5)) {
      const y = bottom - h * tick / (most || 1);
      context.fillStyle = R.color("line");
      context.fillRect(this.left, y, this.w - this.left, 1);
      context.fillStyle = R.color("quiet");
      context.fillText(number(tick), this.left - 6, y);
    }
    context.textAlign = "center";
    context.save();
    context.translate(10, 12 + h / 2);
    context.rotate(-Math.PI / 2);
    context.fillText(title, 0, 0);
    context.restore();
  }
  buttons(...more) {
    return el("div", { class: "bar" },
      el("button", { click: () => this.zoom(1.4), "aria-label": "Zoom in" }, "+"),
      el("button", { click: () => this.zoom(1 / 1.4), "aria-label": "Zoom out" }, "−"),
      el("button", { click: () => this.fit() }, "Fit"), ...more,
      el("span", { class: "quiet optional" }, "Drag or arrow keys move, Ctrl and wheel or + and − zoom, 0 fits" + (this.step ? ", n and p select" : "")));
  }
}
// Round numbers between two values, about `count` of them.
Plot.ticks = (from, to, count) => {
  const raw = (to - from) / Math.max(count, 1), power = 10 ** Math.floor(Math.log10(Math.max(raw, 1e-12)));
  const step = [1, 2, 5, 10].map((k) => k * power).find((k) => k >= raw), found = [];
  for (let k = Math.ceil(from / step); k * step <= to; k++) found.push(k * step);
  return found;
};
// Text that ends with … where it would be wider than `width` pixels.
Plot.text = (context, text, x, y, width) => {
  if (width < 14) return;
  if (context.measureText(text).width > width) {
    let n = Math.max(Math.floor(text.length * width / context.measureText(text).width) - 1, 0);
    text = n ? text.slice(0, n) + "…" : "";
  }
  context.fillText(text, x, y);
};
