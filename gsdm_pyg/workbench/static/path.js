// Vectors over their index: given entries as dots, samples as lines, their spread.

import { Chart } from "./chart.js";
import { make } from "./dom.js";
import { extent, meanAndSpread } from "./statistics.js";

export class PathChart {
  constructor(variables) {
    this.variables = variables;
    this.length = Math.max(...variables.map((variable) => variable.size));
    const names = variables.map((variable) => variable.name).join(" and ");
    this.chart = new Chart(230, `${names} over the index`);
    this.legend = make("div", { className: "legend" });
    this.element = make("div", {}, this.legend, this.chart.element);
    this.state = null;
    this.chart.redraw = () => this.state && this.draw(this.state);
  }

  /** Draw given values, samples (by name, a list of vectors) and the truth. */
  show(state) {
    this.state = state;
    this.draw(state);
  }

  draw({ values, known, samples = {}, truth = false, wrong = {} }) {
    const at = this.chart.begin([0, this.length - 1], this.range(values, known, samples, truth));
    this.legend.replaceChildren();
    for (const [color, { name }] of this.variables.entries()) {
      const drawn = samples[name] ?? [];
      const hidden = values[name].some((value, i) => value !== null && !known[name][i]);
      if (drawn.length > 1) this.chart.band(at, ...band(drawn), color);
      for (const vector of drawn) this.chart.line(at, [...vector.entries()], { color, kind: drawn.length > 1 ? "many" : "" });
      if (truth && hidden) this.chart.line(at, [...values[name].entries()], { color, kind: "truth" });
      for (const [i, value] of values[name].entries()) {
        if (known[name][i]) this.chart.add("circle", { class: "dot", color, r: 3.2, cx: at.x(i), cy: at.y(value) });
      }
      for (const [k, vector] of drawn.entries()) {
        for (const [i, value] of vector.entries()) {
          if (wrong[name]?.[k]?.[i]) this.chart.add("circle", { class: "wrong", r: 3, cx: at.x(i), cy: at.y(value) });
        }
      }
      this.explain(color, name, known[name].some(Boolean), drawn.length, truth && hidden);
    }
  }

  explain(color, name, given, count, truth) {
    const parts = [given && "given, dots", count > 1 && `${count} samples, mean ± 2 std`, count === 1 && "sample, line", truth && "truth, dashed"];
    const text = parts.filter(Boolean).join("; ") || "unknown";
    const swatch = make("span", { className: "swatch", vars: { "--color": `var(--c${color % 6})` } });
    this.legend.append(make("span", {}, swatch, `${name}: ${text}`));
  }

  range(values, known, samples, truth) {
    const all = this.variables.flatMap(({ name }) => [
      ...values[name].filter((value, i) => value !== null && (truth || known[name][i])),
      ...(samples[name] ?? []).flat(),
      ...(samples[name]?.length > 1 ? band(samples[name]).flat() : []),
    ]);
    const scale = Math.max(...this.variables.map((variable) => variable.scale ?? 1));
    if (!all.length) return [-2 * scale, 2 * scale];
    const [low, high] = extent(all), pad = 0.08 * (high - low || 1);
    return [low - pad, high + pad];
  }
}

/** Two standard deviations below and above the mean of vectors. */
function band(vectors) {
  const { mean, spread } = meanAndSpread(vectors);
  return [-2, 2].map((width) => mean.map((m, i) => m + width * spread[i]));
}
