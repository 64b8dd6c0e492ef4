// Requests to the server; what it refuses becomes an Error with its sentence.

async function check(response) {
  if (response.ok) return response;
  let message = `The server answered ${response.status}.`;
  try { message = (await response.json()).error ?? message; } catch { /* not JSON */ }
  throw Object.assign(new Error(message), { status: response.status });
}

async function ask(path, options) {
  let response;
  try { response = await fetch(path, options); } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The server does not answer: is `gsdm show` still running?");
  }
  return check(response);
}

const post = (path, body, signal) => ask(path, {
  method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal,
});

export const getJSON = async (path) => (await ask(path)).json();
export const postJSON = async (path, body) => (await post(path, body)).json();

/** The events of a request as they come. Aborting the signal cancels it. */
export async function* stream(path, body, signal) {
  const response = await post(path, body, signal);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) yield JSON.parse(part.slice("data: ".length));
  }
}
