// A variable as cells: text or colors. Used for what is typed and for answers.

import { make, short } from "./dom.js";

const SMALL = 28; // pixels, below which a cell of colors has no text
const NUMBER = 46; // pixels, the width of a number in a column vector
export const MOST_CELLS = 1600; // more entries become one picture

/** Variables of a panel side by side, with the signs of the panel between them. */
export function row(panel, variables, makeFigure) {
  const signs = variables.length === panel.variables.length ? panel.signs : [];
  const matrices = variables.filter((variable) => variable.columns > 1);
  const columns = matrices.reduce((sum, variable) => sum + variable.columns, 0) || 1;
  const parts = variables.map((variable, i) => (
    i && signs.length
      ? make("div", { className: "signed" }, make("span", { className: "sign" }, signs[i - 1]), makeFigure(variable))
      : makeFigure(variable)
  ));
  const gaps = 11 * (parts.length - 1) + 27 * signs.length + 4 * variables.length
    + (NUMBER + 2) * (variables.length - matrices.length) + 6;
  const line = make("div", { className: "row", vars: { "--columns": columns, "--gaps": `${gaps}px` } }, ...parts);
  return make("div", { className: `panel ${panel.kind}-panel` }, line);
}

/** The cells of a variable; `tag` is "input" or "span". */
export function cells(variable, tag) {
  if (variable.size > MOST_CELLS) return new Picture(variable);
  return new Cells(variable, tag);
}

class Cells {
  constructor(variable, tag) {
    this.variable = variable;
    this.text = variable.panel.kind === "grid";
    const properties = tag === "input"
      ? { autocomplete: "off", inputMode: variable.classes ? "numeric" : "text", tabIndex: -1, spellcheck: false }
      : {};
    this.items = Array.from({ length: variable.size }, (_, index) => {
      const item = make(tag, { className: "cell", ...properties });
      if (tag === "input") item.setAttribute("aria-label", variable.place(index));
      item.classList.add(...this.borders(index));
      return item;
    });
    const more = [variable.panel.block && "blocks", variable.columns === 1 && "column", !this.text && variable.classes === 2 && "bare"];
    this.element = make("div", {
      className: ["cells", this.text ? "text" : "heat", ...more.filter(Boolean)].join(" "),
      vars: { "--width": variable.columns },
    }, ...this.items);
    this.element.setAttribute("role", tag === "input" ? "group" : "img");
    this.element.setAttribute("aria-label", `${variable.name}, ${variable.shape.join(" by ") || "a number"}`);
    if (!this.text) new ResizeObserver(() => this.fit()).observe(this.element);
  }

  borders(index) {
    const { columns, rows, panel } = this.variable;
    if (!panel.block) return [];
    const [height, width] = panel.block;
    const i = Math.floor(index / columns) + 1, j = (index % columns) + 1;
    return [...(j % width === 0 && j < columns ? ["block-right"] : []), ...(i % height === 0 && i < rows ? ["block-below"] : [])];
  }

  fit() { this.element.classList.toggle("small", (this.items[0]?.clientWidth ?? 0) < SMALL); }

  /** Show values; null is unknown. */
  show(values, { known = [], certainty = [], wrong = [] } = {}) {
    for (const [i, item] of this.items.entries()) {
      const value = values[i], sure = known[i] ? 1 : certainty[i];
      const text = this.text ? this.variable.write(value) : decimals(value);
      if (item instanceof HTMLInputElement) { if (!item.dataset.typing) item.value = item === document.activeElement || this.text ? this.variable.write(value) : decimals(value); }
      else if (item.textContent !== text) item.textContent = text;
      item.classList.toggle("known", Boolean(known[i]));
      item.classList.toggle("wrong", Boolean(wrong[i]));
      item.classList.toggle("unknown", value === null || value === undefined);
      item.style.setProperty("--certainty", sure ?? 1);
      if (!(item instanceof HTMLInputElement)) item.title = tooltip(this.variable, i, value, sure);
      if (!this.text) this.paint(item, value, sure);
    }
    const bad = wrong.filter(Boolean).length;
    if (this.element.role === "img") this.element.ariaLabel = `${this.variable.name}: ${values.map((v) => this.variable.write(v)).join(" ")}${bad ? `; ${bad} wrong` : ""}`;
  }

  paint(item, value, sure) {
    const { share, negative } = shade(this.variable, value, sure);
    item.style.setProperty("--share", share.toFixed(3));
    item.style.setProperty("--hue", negative ? "var(--heat-negative)" : "var(--heat)");
    item.classList.toggle("strong", share > 0.55);
  }
}

/** How strong the color of a value is, from 0 to 1; of two classes, their mean. */
function shade(variable, value, sure = 1) {
  if (value === null || value === undefined) return { share: 0, negative: false };
  if (variable.classes === 2) return { share: value ? sure : 1 - sure, negative: false };
  const low = variable.low ?? 0;
  const share = (Math.abs(value - (variable.low === null ? 0 : low))) / Math.max(variable.span - (variable.low === null ? 0 : low), 1e-12);
  return { share: Math.min(share, 1), negative: variable.low === null && value < 0 };
}

/** A number that fits into a cell. */
function decimals(value) {
  if (value === null || value === undefined) return "";
  return Number.isInteger(value) ? String(value) : Math.abs(value) < 10 ? value.toFixed(2).replace(/^-0\.00$/, "0.00") : short(value, 3);
}

function tooltip(variable, index, value, sure) {
  if (value === null || value === undefined) return `${variable.place(index)}: unknown`;
  const certainty = sure === undefined ? "" : `, ${Math.round(100 * sure)}% sure`;
  return `${variable.place(index)}: ${variable.write(value)}${certainty}`;
}

/** A large variable as one picture. */
class Picture {
  constructor(variable) {
    this.variable = variable;
    this.items = [];
    const box = Math.min(480 / Math.max(variable.columns, variable.rows), 6);
    this.element = make("canvas", { width: variable.columns, height: variable.rows, tabIndex: -1 });
    this.element.style.width = `${Math.max(variable.columns * box, 80)}px`;
    this.element.setAttribute("role", "img");
    this.element.setAttribute("aria-label", `${variable.name}, ${variable.shape.join(" by ")}`);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.last && this.show(...this.last));
  }

  show(values, marks = {}) {
    this.last = [values, marks];
    const colors = ["--surface", "--heat", "--heat-negative", "--red", "--known"].map((name) => rgb(name));
    const [surface, heat, negativeHeat, red, unknown] = colors;
    const context = this.element.getContext("2d");
    const image = context.createImageData(this.element.width, this.element.height);
    for (const [i, value] of values.entries()) {
      const { share, negative } = shade(this.variable, value, marks.certainty?.[i]);
      const top = marks.wrong?.[i] ? red : negative ? negativeHeat : heat;
      const part = marks.wrong?.[i] ? 1 : share;
      const base = value === null ? unknown : surface;
      for (let c = 0; c < 3; c += 1) image.data[4 * i + c] = base[c] + (top[c] - base[c]) * part;
      image.data[4 * i + 3] = 255;
    }
    context.putImageData(image, 0, 0);
  }
}

/** A color of the style sheet as numbers. */
export function rgb(name) {
  const text = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  return [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
}
