// The page: what is known on one side, answers on the other.

import { Answers } from "./answers.js";
import { getJSON, postJSON, stream } from "./api.js";
import { byId, short } from "./dom.js";
import { editors } from "./editor.js";
import { showGraph } from "./graph.js";
import { Instance, Variable } from "./instance.js";
import { Player } from "./player.js";
import { follow } from "./training.js";

let instance, answers, player, running, nextDraw;
let isBusy = false, hasModel = false;

function report(text) {
  byId("alert").textContent = text;
  byId("alert").hidden = !text;
}

/** Run something that the server may refuse. */
const guarded = (action) => async () => {
  report("");
  try { await action(); } catch (error) { if (error.name !== "AbortError") report(error.message); }
};

const randomSeed = () => Math.floor(Math.random() * 2 ** 31);

async function draw() {
  instance.load(await postJSON("/api/draw", { seed: nextDraw }));
  nextDraw = randomSeed();
}

/** Read a whole number of an input, or undefined where it is empty. */
function whole(id, low, high) {
  const input = byId(id), text = input.value.trim();
  if (!text && !input.validity.badInput) return undefined;
  const value = Number(text);
  if (Number.isInteger(value) && value >= low && value <= high) return value;
  throw new Error(`${input.parentElement.textContent.trim()} takes a whole number from ${low} to ${high} (got ${text || "none"}).`);
}

/** What the page asks for; a seed that is left out is drawn. */
function question() {
  const asked = {
    given: instance.given(),
    num_samples: whole("count", 1, Number(byId("count").max)) ?? 1,
    seed: whole("seed", 0, Number.MAX_SAFE_INTEGER) ?? randomSeed(),
  };
  const steps = whole("steps", 1, Number(byId("steps").max));
  return steps === undefined ? asked : { ...asked, steps };
}

async function ask(solve) {
  const asked = { ...question(), solve };
  player?.stop();
  player = new Player((frame) => showFrame(frame, asked.seed));
  answers.begin();
  running = new AbortController();
  busy(true);
  let last = {};
  try {
    for await (last of stream("/api/sample", asked, running.signal)) {
      if (last.event === "error") throw new Error(last.message);
      if (last.event === "waiting") say(last.ahead ? `Waiting: ${last.ahead} before this.` : "Begins.");
      else player.push(last);
    }
    if (last.event !== "done") throw new Error("The server broke off: the terminal may say why.");
  } catch (error) {
    player.stop();
    answers.end();
    byId("progress").hidden = true;
    say(error.name === "AbortError" ? "Canceled." : "");
    if (error.status === 400) error.message += countingFromZero();
    throw error;
  } finally {
    busy(false);
  }
}

/** Messages of the library know classes by their numbers, not by what is shown. */
function countingFromZero() {
  const labeled = [...instance.variables.values()].find(({ labels }) => labels.length && labels[0] !== "0");
  return labeled ? ` Messages count the values of ${labeled.name} from 0, which is shown as ${labeled.labels[0]}.` : "";
}

/** One line below the buttons. */
function say(text, done = false) {
  byId("status").textContent = text;
  byId("status").toggleAttribute("data-done", done);
}

function showFrame(frame, seed) {
  const done = frame.event === "done";
  answers.add(frame);
  byId("progress").hidden = done;
  if (frame.total) Object.assign(byId("progress"), { max: frame.total, value: frame.evaluations });
  else byId("progress").removeAttribute("value"); // nobody knows how long solving takes
  const time = `${frame.evaluations} evaluations in ${short(frame.seconds)} s`;
  if (done) answers.end();
  say(done ? `Done: ${time}, seed ${seed}.` : time, done);
}

function enableButtons() {
  for (const id of ["sample", "solve"]) byId(id).disabled = isBusy || !hasModel;
  byId("draw").disabled = isBusy;
}

function busy(is) {
  isBusy = is;
  enableButtons();
  byId("cancel").hidden = !is;
  byId("status").setAttribute("aria-busy", is); // only the end is read out
  if (!is) return;
  say("");
  Object.assign(byId("progress"), { hidden: false, value: 0 });
}

/** What can be asked depends on whether there is a model. */
function showModel(description) {
  const { model } = description;
  const parts = [...description.sizes, description.name, `${description.nodes.toLocaleString("en")} nodes`];
  if (model) parts.push(`${model.layers} layers, ${model.parameters.toLocaleString("en")} parameters`);
  byId("meta").textContent = parts.join(" · ");
  hasModel = Boolean(model);
  enableButtons();
  player?.stop();
  byId("progress").hidden = true;
  say("");
  if (!model) {
    answers.clear("There is no trained model yet. Answers can be sampled as soon as training is done.");
    return;
  }
  byId("sampler").textContent = `By default ${model.sampler}.`;
  byId("steps").placeholder = model.steps;
  byId("steps").max = model.most_steps;
  answers.clear("Nothing is sampled yet.");
}

/** Show the newest model; false while answers of another one come in. */
async function refresh() {
  const found = isBusy ? null : await getJSON("/api/problem");
  if (isBusy) return false;
  showModel(found);
  return true;
}

async function start() {
  const description = await getJSON("/api/problem");
  document.title = `${description.label} · gsdm workbench`;
  byId("title").textContent = description.problem;
  byId("about").textContent = description.about;
  nextDraw = description.seed;
  byId("solve").hidden = !description.has_rules;
  byId("sample").classList.toggle("primary", !description.has_rules);
  byId("count").max = description.most_samples;
  const panelOf = (name) => description.panels.find((panel) => panel.variables.includes(name));
  const others = description.others.map((name) => ({ kind: "matrix", variables: [name], signs: [], labels: [] }));
  const variables = description.variables.map((variable) => new Variable(variable,
    panelOf(variable.name) ?? others.find((panel) => panel.variables[0] === variable.name)));
  instance = new Instance(variables);
  byId("editors").replaceChildren(...editors(instance, description.panels, report));
  if (others.length) {
    byId("others").hidden = false;
    byId("others").addEventListener("toggle", () => {
      byId("others").lastElementChild.replaceChildren(...editors(instance, others, report));
    }, { once: true });
  }
  answers = new Answers(instance, description.panels);
  showModel(description);
  byId("draw").addEventListener("click", guarded(draw));
  byId("clear").addEventListener("click", () => { report(""); instance.clear(); });
  byId("sample").addEventListener("click", guarded(() => ask(false)));
  byId("solve").addEventListener("click", guarded(() => ask(true)));
  byId("cancel").addEventListener("click", () => running?.abort());
  if (description.follows_run) follow(description.stamp, refresh);
  await guarded(draw)();
  document.body.dataset.ready = "yes";
  await showGraph(description);
}

start().catch((error) => report(error.message));
