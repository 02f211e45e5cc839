// The model at work, beside the page. The script that wasm-bindgen makes stands before this one.
//
// A job is { id, settings }, or with `point` one of the load curve. It is given up between two replications as soon as a
// newer one has come, so that nobody waits for numbers that are out of date.

let newest = null;
let working = false;

// Lets messages in. A timer would wait 4 ms.
const pause = new MessageChannel();
let resume = () => {};
pause.port1.onmessage = () => resume();
const letMessagesIn = () => new Promise((resolve) => {
  resume = resolve;
  pause.port2.postMessage(0);
});

async function study({ id, settings, point }) {
  const of = new wasm_bindgen.Study(settings);
  if (point === undefined) postMessage({ id, toml: of.toml(), bound: JSON.parse(of.bound()) });
  for (;;) {
    const more = of.step();
    const answer = JSON.parse(of.answer());
    const json = more || point !== undefined ? undefined : of.json();
    postMessage({ id, point, answer, json, last: !more });
    if (more) await letMessagesIn();
    if (!more || newest) break;
  }
  of.free();
}

async function work() {
  working = true;
  while (newest) {
    const job = newest;
    newest = null;
    try {
      await study(job);
    } catch (e) {
      // The model throws lines. Anything else is the end of it, and the page begins another one.
      const line = typeof e === "string";
      postMessage({ id: job.id, point: job.point, error: line ? e : `the model has failed: ${e.message ?? e}`, failed: !line });
    }
    await letMessagesIn();
  }
  working = false;
}

onmessage = ({ data }) => {
  if (data.model) {
    wasm_bindgen.initSync({ module: data.model });
    return;
  }
  newest = data;
  if (!working) work();
};
