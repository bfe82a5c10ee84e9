// Calls to the server. Answers come line by line: progress, parts to show already, then what was done or why not.

import { CANCELLED, clear, el } from "./dom.js";

export class Refused extends Error {}
// Nobody listens any more; what the work came to is not known here.
export class Lost extends Refused {}

async function lines(response, hear) {
  if (!response.headers.get("content-type")?.startsWith("application/x-ndjson")) {
    const said = await response.json().catch(() => ({}));
    throw new Refused(said.error ?? `The server answered ${response.status}.`);
  }
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) throw new Lost("The server went away. Start it again with pufferdp serve.");
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    for (const part of parts) {
      const said = JSON.parse(part);
      if ("error" in said) throw new Refused(said.error);
      if ("done" in said) return said.done;
      if ("charging" in said) hear.charging?.();
      if ("part" in said) hear.part?.(said.part);
      if ("progress" in said) hear.progress?.(said.progress);
    }
  }
}

async function send(url, body, type, hear, signal) {
  let response;
  try {
    response = await fetch(url, { method: "POST", body, signal, headers: { "content-type": type }, credentials: "omit" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused("The server does not answer. Start it again with pufferdp serve.");
  }
  return lines(response, hear);
}

export const ask = (job, content, hear = {}, signal = undefined) =>
  send(`api/do/${job}`, JSON.stringify(content), "application/json", hear, signal);

export async function upload(what, file, largest, hear = {}, signal = undefined) {
  if (file.size > largest)
    throw new Refused(`${file.name} is too large: the page takes files of up to ${largest / 2 ** 20} MB. Use the command line.`);
  return send(`api/upload/${what}?name=${encodeURIComponent(file.name)}`, file, "application/octet-stream", hear, signal);
}

// Work that may take long: says what it is doing, and can be cancelled until it is charged.
export async function working(node, act) {
  const mine = new AbortController();
  const words = el("span", { text: "starting …" });
  const stop = el("button", { type: "button", className: "small", text: "Cancel", on: { click: () => mine.abort() } });
  clear(node, el("p", { className: "note row" }, words, stop));
  try {
    const progress = (said) => (words.textContent = `${said} …`);
    const charging = () => {
      stop.disabled = true;
      progress("charging: from here on it runs to its end");
    };
    return await act({ progress, charging }, mine.signal);
  } catch (problem) {
    if (mine.signal.aborted) throw new Lost(CANCELLED);
    throw problem;
  }
}

// One question at a time: a new one cancels the one before, and only the latest is shown.
export class Latest {
  #abort = null;
  cancel() {
    this.#abort?.abort();
    this.#abort = null;
  }
  async ask(job, content, hear = {}) {
    this.cancel();
    const mine = (this.#abort = new AbortController());
    try {
      return await ask(job, content, { part: (p) => this.#abort === mine && hear.part?.(p), progress: hear.progress }, mine.signal);
    } catch (error) {
      if (mine.signal.aborted) return undefined;
      throw error;
    } finally {
      if (this.#abort === mine) this.#abort = null;
    }
  }
}
