// Axes and lines in SVG, for paths and for curves of training.

import { make, svg } from "./dom.js";

const MARGIN = { left: 44, right: 10, top: 8, bottom: 20 };

/** A diagram that is drawn anew when its width changes. */
export class Chart {
  constructor(height, label) {
    this.height = height;
    this.canvas = svg("svg", { role: "img", "aria-label": label });
    this.element = make("div", { className: "chart" }, this.canvas);
    this.redraw = () => {};
    let width = 0;
    new ResizeObserver(([{ contentRect }]) => {
      if (Math.abs(contentRect.width - width) < 1) return;
      width = contentRect.width;
      this.redraw();
    }).observe(this.element);
  }

  /** Begin a drawing over the ranges x and y, each [low, high]; returns the scales. */
  begin(x, y, { log = false } = {}) {
    const width = Math.max(this.element.clientWidth, 160);
    const map = log ? Math.log10 : (value) => value;
    const [low, high] = [map(y[0]), map(y[1])];
    const right = width - MARGIN.right, bottom = this.height - MARGIN.bottom;
    const at = {
      x: (value) => MARGIN.left + ((value - x[0]) / (x[1] - x[0] || 1)) * (right - MARGIN.left),
      y: (value) => bottom - ((map(value) - low) / (high - low || 1)) * (bottom - MARGIN.top),
    };
    this.canvas.setAttribute("viewBox", `0 0 ${width} ${this.height}`);
    this.canvas.replaceChildren();
    for (const tick of log ? powers(y) : ticks(y)) {
      this.add("line", { class: tick === 0 ? "axis zero" : "axis", x1: MARGIN.left, x2: right, y1: at.y(tick), y2: at.y(tick) });
      this.add("text", { x: MARGIN.left - 6, y: at.y(tick) + 4, "text-anchor": "end" }, label(tick));
    }
    for (const tick of ticks(x, Math.min(6, width / 70))) {
      this.add("text", { x: at.x(tick), y: this.height - 4, "text-anchor": "middle" }, label(tick));
    }
    return at;
  }

  add(tag, attributes, ...children) {
    const element = svg(tag, attributes, ...children);
    this.canvas.append(element);
    return element;
  }

  /** A line through [x, y] points; null values leave gaps. */
  line(at, points, { color = 0, kind = "" } = {}) {
    let path = "", pen = "M";
    for (const [x, y] of points) {
      if (y === null || y === undefined) { pen = "M"; continue; }
      path += `${pen}${at.x(x).toFixed(1)} ${at.y(y).toFixed(1)}`;
      pen = "L";
    }
    this.add("path", { class: `line ${kind}`, color, d: path });
  }

  /** The area between two lines over the same x. */
  band(at, lower, upper, color) {
    const there = upper.map((y, x) => `${at.x(x).toFixed(1)} ${at.y(y).toFixed(1)}`);
    const back = lower.map((y, x) => `${at.x(x).toFixed(1)} ${at.y(y).toFixed(1)}`).reverse();
    this.add("path", { class: "band", color, d: `M${[...there, ...back].join("L")}Z` });
  }
}

function label(value) {
  const size = Math.abs(value);
  if (size >= 1e6) return `${value / 1e6}M`;
  if (size >= 1e4) return `${value / 1e3}k`;
  return String(Number(value.toPrecision(3)));
}

/** Round numbers within a range. */
function ticks([low, high], count = 4) {
  const raw = (high - low || 1) / Math.max(count, 1);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= raw) * power;
  const first = Math.ceil(low / step - 1e-9);
  const found = [];
  for (let k = first; k * step <= high + 1e-9 * step; k += 1) found.push(k * step);
  return found;
}

/** 1, 2 and 5 times powers of ten within a range. */
function powers([low, high]) {
  const found = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power += 1) {
    for (const factor of high / low > 100 ? [1] : [1, 2, 5]) {
      const tick = factor * 10 ** power;
      if (tick >= low && tick <= high) found.push(tick);
    }
  }
  return found.length > 1 ? found : ticks([low, high]);
}
