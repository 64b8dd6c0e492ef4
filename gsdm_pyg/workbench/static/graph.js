// The graph: nodes and edges of a small one, the attention mask of any.

import { getJSON } from "./api.js";
import { rgb } from "./cells.js";
import { byId, make, svg } from "./dom.js";

/** Load the graph and show it. */
export async function showGraph(description) {
  const names = description.variables.map((variable) => variable.name);
  byId("variables").tBodies[0].replaceChildren(...description.variables.map((variable, i) => make("tr", {},
    make("td", {}, make("span", { className: `swatch ${variable.role}`, vars: { "--color": `var(--c${i % 6})` } }), variable.name),
    ...[variable.role, variable.shape.join(" × ") || "one number", variable.domain].map((text) => make("td", {}, text)))));
  const graph = await getJSON("/api/graph");
  byId("graph-summary").textContent = `${graph.nodes.toLocaleString("en")} nodes. Each attends to `
    + `${graph.degree.toFixed(1)} on average, itself included: ${graph.edges.toLocaleString("en")} pairs, `
    + `${Number((100 * graph.density).toPrecision(2))}% of all.`;
  const views = [...(graph.drawing ? [drawing(graph.drawing, description, names)] : []), mask(graph)];
  byId("graph-views").prepend(...views);
}

function drawing({ at, directed, factors, variables }, description, names) {
  const roles = new Map(description.variables.map((variable) => [variable.name, variable.role]));
  const width = 460, pad = 14;
  const height = Math.max(...at.map(([, y]) => y)) * (width - 2 * pad) + 2 * pad;
  const x = (i) => pad + at[i][0] * (width - 2 * pad), y = (i) => pad + at[i][1] * (width - 2 * pad);
  const link = (kind) => ([i, j]) => svg("line", { class: kind, x1: x(i), y1: y(i), x2: x(j), y2: y(j) });
  const nodes = at.map((_, i) => svg("circle", {
    class: `node ${roles.get(variables[i])}`, color: Math.max(names.indexOf(variables[i]), 0), r: at.length > 60 ? 4.5 : 6.5, cx: x(i), cy: y(i),
  }, svg("title", {}, variables[i])));
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "nodes and edges of the graph" },
    ...factors.map(link("factor")), ...directed.map(link("edge")), ...nodes);
  const legend = "Lines join parents and children, dashed ones nodes of a factor. Filled nodes are observed in training.";
  return make("figure", {}, picture, make("figcaption", { className: "wrap" }, legend));
}

function mask({ mask: { cells, gray }, nodes }) {
  const shares = Uint8Array.from(atob(gray), (character) => character.charCodeAt(0));
  const canvas = make("canvas", { width: cells, height: cells });
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", "attention mask");
  const paint = () => {
    const [paper, ink] = [rgb("--surface"), rgb("--heat")];
    const context = canvas.getContext("2d"), image = context.createImageData(cells, cells);
    for (const [i, share] of shares.entries()) {
      for (let c = 0; c < 3; c += 1) image.data[4 * i + c] = paper[c] + ((ink[c] - paper[c]) * share) / 255;
      image.data[4 * i + 3] = 255;
    }
    context.putImageData(image, 0, 0);
  };
  paint();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
  const side = Math.round(nodes / cells);
  const scale = side > 1 ? `; a dot stands for ${side} × ${side} pairs` : "";
  return make("figure", {}, canvas, make("figcaption", { className: "wrap" }, `The attention mask: row i is marked where node i attends to node j${scale}.`));
}
