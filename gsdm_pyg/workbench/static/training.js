// A run as it trains: curves and the newest pictures, read again every few seconds.

import { getJSON } from "./api.js";
import { Chart } from "./chart.js";
import { byId, make, short } from "./dom.js";
import { extent } from "./statistics.js";

const EVERY = 2000; // milliseconds

/**
 * Follow the newest run. `stamp` names the run and the model that the page shows;
 * `onModel` is called when another one is there, and again if it returns false.
 */
export function follow(stamp, onModel) {
  byId("training").hidden = false;
  const charts = new Map();
  let name, finished = false;
  async function read() {
    if (!document.hidden) {
      try {
        const run = await getJSON("/api/training");
        if (run.run !== name) clear(charts);
        ({ run: name, finished } = run);
        show(run, charts);
        if (run.stamp !== stamp && await onModel()) stamp = run.stamp;
      } catch (error) {
        byId("training-status").textContent = error.message;
      }
    }
    setTimeout(read, finished ? 5 * EVERY : EVERY);
  }
  read();
}

/** Remove what was shown of another run. */
function clear(charts) {
  charts.clear();
  byId("curves").replaceChildren();
  byId("pictures").replaceChildren();
  delete byId("pictures").dataset.shown;
}

function show(run, charts) {
  byId("training-status").textContent = status(run);
  for (const [name, points] of Object.entries(run.curves)) {
    if (!charts.has(name)) charts.set(name, addChart(name));
    charts.get(name)(points);
  }
  const pictures = byId("pictures"), written = Object.entries(run.pictures ?? {});
  if (pictures.dataset.shown === written.join()) return;
  pictures.dataset.shown = written.join();
  // The time in the address makes the browser load a picture that was written anew.
  pictures.replaceChildren(...written.map(([name, time]) => make("figure", {},
    make("img", { src: `/api/training/pictures/${encodeURIComponent(name)}?written=${time}`, alt: name }),
    make("figcaption", {}, name.replace(/\.png$/, "")))));
}

function status({ run, step, age, finished }) {
  if (run === null) return "There is no run of this config yet. It appears here as soon as training begins.";
  if (!step) return `${run}: training begins.`;
  const since = age < 90 ? `${Math.round(age)} s` : age < 5400 ? `${Math.round(age / 60)} min` : `${Math.round(age / 3600)} h`;
  return `${run} · step ${short(step)} · ${finished ? "finished" : `last entry ${since} ago`}`;
}

/** A small diagram; returns what draws points into it. */
function addChart(name) {
  const chart = new Chart(150, `${name} by training step`);
  const caption = make("figcaption", {});
  byId("curves").append(make("figure", {}, caption, chart.element));
  return (points) => {
    const values = points.map(([, y]) => y), [low, high] = extent(values);
    const log = name === "loss" && low > 0 && high > low;
    const pad = log ? 0 : 0.06 * (high - low || Math.abs(high) || 1);
    caption.replaceChildren(make("b", {}, name), short(values.at(-1)));
    chart.redraw = () => {
      const at = chart.begin([0, Math.max(points.at(-1)[0], 1)], [low - pad, high + pad], { log });
      chart.line(at, points);
      if (points.length < 40) for (const [x, y] of points) chart.add("circle", { class: "dot", color: 0, r: 2.6, cx: at.x(x), cy: at.y(y) });
    };
    chart.redraw();
  };
}
