// Where values are typed: each variable as cells, or as a strip below its diagram.

import { cells, MOST_CELLS, row } from "./cells.js";
import { make } from "./dom.js";
import { PathChart } from "./path.js";

/** All panels of an instance as editors. */
export function editors(instance, panels, report) {
  return panels.map((panel) => {
    const variables = panel.variables.map((name) => instance.variables.get(name));
    const figure = (variable) => new Editor(instance, variable, panel.kind === "path", report).element;
    if (panel.kind !== "path") return row(panel, variables, figure);
    const chart = new PathChart(variables);
    const redraw = () => chart.show({ known: instance.known, values: instance.values });
    instance.addEventListener("change", redraw);
    return make("div", { className: "panel" }, chart.element, ...variables.map(figure));
  });
}

class Editor {
  constructor(instance, variable, strip, report) {
    Object.assign(this, { instance, variable, report });
    this.view = cells(variable, "input");
    if (strip) this.view.element.classList.replace("cells", "strip");
    this.name = make("button", { type: "button", className: "name", textContent: variable.name, onclick: () => this.mark() });
    this.element = make("figure", {}, make("figcaption", {}, this.name), this.view.element);
    if (variable.size > MOST_CELLS) {
      this.view.element.tabIndex = 0;
      this.view.element.title = "Paste all values here";
      this.view.element.addEventListener("paste", (event) => this.paste(event, 0));
    }
    for (const [index, item] of this.view.items.entries()) this.listen(item, index);
    if (this.view.items.length) this.view.items[0].tabIndex = 0;
    instance.addEventListener("change", () => this.show());
    this.show();
  }

  show() {
    const { name } = this.variable, values = this.instance.values[name], known = this.instance.known[name];
    this.complete = known.every((given, i) => given || values[i] === null);
    const given = known.filter(Boolean).length;
    this.name.className = `name ${given === known.length ? "all" : given ? "some" : "none"}`;
    this.name.disabled = this.complete && !given;
    this.name.title = this.name.disabled ? `${name} is unknown` : `${this.complete ? "Hide" : "Give"} all of ${name}`;
    this.view.show(values.map((value, i) => (known[i] ? value : null)), { known });
  }

  /** Give all values that there are, or hide them if they are given. */
  mark() { this.instance.mark(this.variable.name, !this.complete); }

  listen(item, index) {
    item.addEventListener("focus", () => {
      for (const other of this.view.items) other.tabIndex = -1;
      item.tabIndex = 0;
      this.show(); // with all its digits
      item.select();
    });
    item.addEventListener("input", () => this.type(item, index));
    item.addEventListener("blur", () => this.leave(item));
    item.addEventListener("paste", (event) => this.paste(event, index));
    item.addEventListener("keydown", (event) => this.press(event, item, index));
  }

  type(item, index) {
    item.dataset.typing = "yes";
    const value = this.variable.read(item.value);
    item.setAttribute("aria-invalid", value === undefined);
    this.report(value === undefined ? `${this.variable.name} takes ${this.variable.range} (got "${item.value.slice(0, 40)}").` : "");
    if (value !== undefined) this.instance.set(this.variable.name, index, value);
  }

  leave(item) {
    delete item.dataset.typing;
    if (item.getAttribute("aria-invalid") === "true") this.report("");
    item.removeAttribute("aria-invalid");
    this.show();
  }

  paste(event, index) {
    const text = event.clipboardData.getData("text");
    event.preventDefault();
    try {
      this.instance.paste(this.variable.name, index, text);
      this.report("");
    } catch (error) {
      this.report(error.message);
    }
  }

  press(event, item, index) {
    const { columns, size, name } = this.variable;
    const row = Math.floor(index / columns), last = size - 1;
    const to = {
      ArrowLeft: index - 1, ArrowRight: index + 1, ArrowUp: index - columns, ArrowDown: index + columns,
      Enter: index + columns, Home: row * columns, End: row * columns + columns - 1,
    }[event.key];
    if (to !== undefined) {
      event.preventDefault();
      this.view.items[Math.min(Math.max(to, 0), last)].focus();
    } else if (event.key === " ") {
      event.preventDefault();
      this.leave(item);
      this.instance.toggle(name, index);
    } else if (event.key === "Delete" || (event.key === "Backspace" && item.value.length <= 1)) {
      event.preventDefault();
      this.leave(item);
      this.instance.set(name, index, null);
    }
  }
}
