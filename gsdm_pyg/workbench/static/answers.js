// Samples side by side, what they say together, and the way they came out of noise.

import { cells, row } from "./cells.js";
import { byId, make } from "./dom.js";
import { PathChart } from "./path.js";
import { together } from "./statistics.js";

const MOST_FRAMES = 400; // that can be replayed

export class Answers {
  constructor(instance, panels) {
    Object.assign(this, { instance, panels });
    this.root = byId("samples");
    this.slider = byId("step");
    this.slider.addEventListener("input", () => this.draw(this.frames[Number(this.slider.value)]));
    this.clear("Nothing is sampled yet.");
  }

  clear(text) {
    this.frames = [];
    this.views = null;
    byId("replay").hidden = true;
    this.root.replaceChildren(make("p", { className: "empty" }, text));
  }

  /** Begin with an empty screen for what is given now. */
  begin() {
    this.clear("");
    this.given = structuredClone({ values: this.instance.values, known: this.instance.known });
    this.drawn = this.instance.drawn;
  }

  /** Show a frame of the stream. */
  add(frame) {
    if (this.frames.length >= MOST_FRAMES) this.frames.splice(1, 1);
    this.frames.push(frame);
    this.draw(frame);
  }

  /** The stream has ended: its frames can be replayed. */
  end() {
    this.slider.max = Math.max(this.frames.length - 1, 0);
    this.slider.value = this.slider.max;
    byId("replay").hidden = this.frames.length < 2;
  }

  draw(frame) {
    const names = Object.keys(frame.values);
    if (!names.length) {
      this.root.replaceChildren(make("p", { className: "empty" }, "All that the panels show is given, or it is too large to be shown."));
      return;
    }
    this.views ??= this.build(names, frame.values[names[0]].length);
    for (const show of this.views) show(frame);
  }

  /** Make the cards; each view is a function of a frame. */
  build(names, count) {
    const views = [], cards = [];
    const shown = this.panels
      .map((panel) => ({ panel, variables: panel.variables.filter((name) => names.includes(name)).map((name) => this.instance.variables.get(name)) }))
      .filter(({ variables }) => variables.length);
    for (const { panel } of shown.filter((part) => part.panel.kind === "path")) cards.push(this.path(panel, views));
    const parts = shown.filter((part) => part.panel.kind !== "path");
    if (parts.length) {
      if (count > 1) cards.push(this.card(parts, views, "All samples", null));
      for (let k = 0; k < count; k += 1) cards.push(this.card(parts, views, count > 1 ? `Sample ${k + 1}` : "Sample", k));
    }
    const widest = Math.max(...parts.map(({ variables }) => variables.reduce((sum, { columns }) => sum + columns, 0)), 1);
    this.root.style.setProperty("--card", `${Math.min(Math.max(widest * 17 + 30, 150), 440)}px`);
    this.root.replaceChildren(...cards);
    return views;
  }

  path(panel, views) {
    const chart = new PathChart(panel.variables.map((name) => this.instance.variables.get(name)));
    views.push((frame) => chart.show({ ...this.given, samples: frame.values, truth: this.drawn, wrong: frame.wrong }));
    return make("div", { className: "card wide" }, chart.element);
  }

  /** A card of one sample, or of all of them where `k` is null. */
  card(parts, views, title, k) {
    const verdict = make("span", {});
    const body = parts.map(({ panel, variables }) => row(panel, variables, (variable) => {
      const view = cells(variable, "span"), { name } = variable;
      views.push((frame) => {
        const samples = frame.values[name], certainty = frame.certainty[name];
        const one = k === null ? together(variable, samples) : { values: samples[k], certainty: certainty?.[k] };
        view.show(one.values, { known: this.given.known[name], certainty: one.certainty, wrong: k === null ? [] : frame.wrong?.[name]?.[k] });
      });
      const caption = variables.length > 1 ? [make("figcaption", {}, make("b", {}, name))] : [];
      return make("figure", {}, ...caption, view.element);
    }));
    if (k !== null) views.push((frame) => showVerdict(verdict, frame, k));
    return make("div", { className: "card" }, make("h3", {}, title, verdict), ...body);
  }
}

/** Say which rules a sample breaks, once it is finished. */
function showVerdict(element, { event, broken }, k) {
  const names = event === "done" ? broken?.[k] : undefined;
  element.className = names?.length ? "bad" : "good";
  element.textContent = names === undefined ? "" : names.length ? `broken: ${names.join(", ")}` : "all rules hold";
}
