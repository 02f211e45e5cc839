// The model in its worker, as the page asks it. No answer gets through behind one to a newer question. One to a question that is
// not the newest any more does, if it is first: while a slider moves there is always a newer one, and nothing would be seen.

import { at } from "./elements.js";

const SILENT_MS = 2000;

export class Model {
  #module;
  #url;
  #worker;
  #id = 0;
  #answered = 0;
  #busySince = 0;
  #heard;

  // `heard` is told what comes of questions: { toml, bound }, { answer, json, last }, { point, answer } or { error }.
  constructor(heard) {
    this.#heard = heard;
    const script = at("worker").textContent;
    this.#url = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
  }

  async load() {
    const text = at("model").textContent;
    const bytes = Uint8Array.from(atob(text.trim()), (c) => c.charCodeAt(0));
    this.#module = await WebAssembly.compile(bytes);
    this.#begin();
  }

  #begin() {
    this.#worker?.terminate();
    this.#worker = new Worker(this.#url);
    this.#worker.onmessage = ({ data }) => this.receive(data);
    this.#worker.postMessage({ model: this.#module });
    this.#busySince = 0;
  }

  // A new question; what came before it is given up.
  ask(settings) {
    const now = performance.now();
    if (this.#busySince && now - this.#busySince > SILENT_MS) this.#begin();
    this.#id += 1;
    this.#busySince = now;
    this.#worker.postMessage({ id: this.#id, settings });
    return this.#id;
  }

  // A point of the load curve, which belongs to the newest question.
  askPoint(settings, point) {
    this.#busySince = performance.now();
    this.#worker.postMessage({ id: this.#id, settings, point });
  }

  get newest() {
    return this.#id;
  }

  receive(message) {
    this.#busySince = message.last || message.error ? 0 : performance.now();
    if (message.failed) this.#begin();
    if (message.id < this.#answered) return;
    this.#answered = message.id;
    this.#heard(message);
  }
}
