// The values of an instance, which of them are given, and how they are written.

import { extent } from "./statistics.js";

const BLANKS = new Set(["", ".", "_", "?", "nan", "null", "none", "-"]);

/** How a variable is shown: its description, and the panel that shows it. */
export class Variable {
  constructor(description, panel) {
    Object.assign(this, description);
    this.panel = panel;
    this.size = this.shape.reduce((product, n) => product * n, 1);
    const upright = panel.signs.length > 0 && this.shape.length === 1; // a column vector
    this.columns = this.shape.length === 0 || upright ? 1 : this.shape.at(-1);
    this.rows = this.size / this.columns;
    this.labels = panel.labels;
    this.span = this.high ?? (this.classes ? this.classes - 1 : 2.5 * (this.scale ?? 1));
  }

  /** The values that can be typed, in words. */
  get range() {
    if (this.labels.length) return `${this.labels[0]} to ${this.labels.at(-1)}`;
    return this.domain.replace("..", " to ");
  }

  write(value) {
    if (value === null || value === undefined) return "";
    return this.classes && this.labels.length ? this.labels[value] : short(value);
  }

  /** The value of a text: null if blank, undefined if it is none of this variable. */
  read(text) {
    text = text.trim().replace("−", "-");
    const label = this.labels.indexOf(text);
    if (label >= 0) return label;
    if (BLANKS.has(text.toLowerCase())) return null;
    if (this.labels.length) return text === "0" ? null : undefined;
    const value = Number(text);
    if (!Number.isFinite(value)) return undefined;
    if (this.classes && !(Number.isInteger(value) && value >= 0 && value < this.classes)) return undefined;
    if ((this.low !== null && value < this.low) || (this.high !== null && value > this.high)) return undefined;
    return value;
  }

  /** Where an entry is, in words. */
  place(index) {
    if (this.shape.length === 0) return this.name;
    if (this.shape.length === 1) return `${this.name}, entry ${index + 1}`;
    const row = Math.floor(index / this.columns) + 1;
    return `${this.name}, row ${row}, column ${(index % this.columns) + 1}`;
  }
}

function short(value) {
  return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(4)));
}

/** Values and which of them are given, of all variables; tells who listens. */
export class Instance extends EventTarget {
  constructor(variables) {
    super();
    this.variables = new Map(variables.map((variable) => [variable.name, variable]));
    this.values = {};
    this.known = {};
    for (const { name, size } of variables) {
      this.values[name] = new Array(size).fill(null);
      this.known[name] = new Array(size).fill(false);
    }
    this.drawn = false;
  }

  set(name, index, value) {
    this.values[name][index] = value;
    this.known[name][index] = value !== null;
    this.changed();
  }

  /** Hide a value, or bring it back. */
  toggle(name, index) {
    this.known[name][index] = !this.known[name][index] && this.values[name][index] !== null;
    this.changed();
  }

  /** Give all values that there are, or none. */
  mark(name, given) {
    this.known[name] = this.values[name].map((value) => given && value !== null);
    this.changed();
  }

  clear() {
    for (const name of this.variables.keys()) {
      this.values[name].fill(null);
      this.known[name].fill(false);
    }
    this.drawn = false;
    this.changed();
  }

  load({ values, given }) {
    for (const variable of this.variables.values()) {
      const drawn = values[variable.name];
      this.values[variable.name] = drawn;
      this.known[variable.name] = given[variable.name];
      const bounded = variable.high !== null || variable.classes;
      if (!bounded) variable.span = extent(drawn.map(Math.abs))[1] || 1;
    }
    this.drawn = true;
    this.changed();
  }

  /** Fill entries from a text, beginning at one of them; all or none. */
  paste(name, start, text) {
    const variable = this.variables.get(name);
    const entries = place(tokens(text, variable.classes), start, variable).map(([index, token]) => {
      const value = variable.read(token);
      if (value !== undefined) return [index, value];
      throw new Error(`${name} takes ${variable.range}, and a dot where unknown (got "${token.slice(0, 40)}").`);
    });
    for (const [index, value] of entries) {
      this.values[name][index] = value;
      this.known[name][index] = value !== null;
    }
    this.changed();
  }

  /** What the server is asked to condition on. */
  given() {
    const given = {};
    for (const name of this.variables.keys()) {
      if (this.known[name].some(Boolean)) given[name] = this.values[name].map((value, i) => (this.known[name][i] ? value : null));
    }
    return given;
  }

  changed() { this.dispatchEvent(new Event("change")); }
}

/** The rows of a table or a nested list; of classes also one character per cell. */
function tokens(text, classes) {
  const lines = text.replace(/\]\s*,?\s*\[/g, "\n").replace(/[[\]]/g, " ").trim().split(/[\n;]+/);
  const rows = lines.map((line) => line.trim().split(/\s*[\t,]\s*|\s+/));
  const compact = classes && rows.every((row) => row.length === 1) && rows.some((row) => row[0].length > 2);
  return compact ? rows.map((row) => [...row[0]]) : rows;
}

/** The index of each token: a single row runs on, several fill a block. */
function place(rows, start, { name, columns, size, shape }) {
  const left = start % columns;
  const placed = rows.length === 1
    ? rows[0].map((token, k) => [start + k, token])
    : rows.flatMap((row, i) => row.map((token, j) => [left + j < columns ? start + i * columns + j : size, token]));
  if (placed.every(([index]) => index < size)) return placed;
  throw new Error(`${name} is of shape ${shape.join(" × ")}: the pasted values do not fit there (got ${rows.length} rows of ${rows[0].length}).`);
}
