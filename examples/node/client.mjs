// A client of the ZeroMQ protocol, written from docs/protocol.md.
//
//   npm install
//   node client.mjs tcp://127.0.0.1:5555 "The capital of France is"

import { pathToFileURL } from "node:url";

import { Packr } from "msgpackr";
import { Dealer } from "zeromq";

const packr = new Packr({ useRecords: false, int64AsType: "auto" });

// Messages about a request. Others may be added within version 1, and are ignored.
const ABOUT_REQUESTS = new Set(["prompt_logprobs", "delta", "finished", "failed"]);

export class Client {
  #socket = new Dealer({ immediate: true, linger: 0 });
  #streams = new Map(); // request name -> { queue, wake, open }
  #waiting = new Map(); // answer type -> resolvers, in the order of asking
  #sending = Promise.resolve();
  #number = 0;

  static async connect(endpoint) {
    const client = new Client();
    client.#socket.connect(endpoint);
    // The event overtakes the last frames: let them come first.
    client.#socket.events.on("disconnect", () => setTimeout(() => client.#lose("the connection was lost"), 100));
    client.#receive();
    client.server = await client.#ask({ type: "client_hello", version: 1, client: "node" }, "server_hello");
    return client;
  }

  // Yields the prompt_logprobs of a request where asked for, every delta, then its finished messages.
  // Throws when it fails. Leaving the loop cancels it.
  async *generate(prompt, params = {}, options = {}) {
    const request = `node-${++this.#number}`;
    const stream = { queue: [], wake: () => {}, open: params.n ?? 1 };
    this.#streams.set(request, stream);
    await this.#send({ type: "generate", request, ...promptField(prompt), params, ...options });
    try {
      while (stream.open > 0 || stream.queue.length > 0) {
        if (stream.queue.length === 0) await new Promise((resolve) => (stream.wake = resolve));
        const message = stream.queue.shift();
        if (message.type === "failed") throw failure(message.problem);
        yield message;
      }
    } finally {
      const unfinished = this.#streams.delete(request);
      if (unfinished) await this.#send({ type: "cancel_request", request });
    }
  }

  async complete(prompt, params = {}, options = {}) {
    const choices = Array.from({ length: params.n ?? 1 }, () => ({ text: "", token_ids: [] }));
    for await (const message of this.generate(prompt, params, options)) {
      const choice = choices[message.choice];
      if (message.type === "prompt_logprobs") {
        choice.prompt_logprobs = [...(choice.prompt_logprobs ?? []), ...message.tokens];
        continue;
      }
      choice.text += message.text;
      if (message.type === "delta") choice.token_ids.push(...message.token_ids);
      else Object.assign(choice, { finish_reason: message.finish_reason, usage: message.usage, seed: message.seed });
    }
    return choices;
  }

  stats() {
    return this.#ask({ type: "stats_request" }, "stats");
  }

  async ping() {
    const begin = performance.now();
    await this.#ask({ type: "ping", nonce: ++this.#number }, "pong");
    return performance.now() - begin;
  }

  close() {
    this.#socket.close();
  }

  // A socket takes one send at a time.
  #send(message) {
    this.#sending = this.#sending.then(() => this.#socket.send(packr.pack(message)));
    return this.#sending;
  }

  async #ask(message, answer) {
    const answered = new Promise((resolve, reject) => {
      const others = this.#waiting.get(answer) ?? [];
      this.#waiting.set(answer, [...others, { resolve, reject }]);
    });
    await this.#send(message);
    return answered;
  }

  async #receive() {
    for await (const [frame] of this.#socket) this.#take(packr.unpack(frame));
  }

  #take(message) {
    if (message.type === "pong" && message.nonce === 0) return;
    if (message.request) return ABOUT_REQUESTS.has(message.type) && this.#flow(message);
    if (message.type === "failed") return this.#lose(message.problem.message, failure(message.problem));
    this.#waiting.get(message.type)?.shift()?.resolve(message);
  }

  #flow(message) {
    const stream = this.#streams.get(message.request);
    if (stream === undefined) return;
    if (message.type === "finished") stream.open -= 1;
    if (message.type === "failed") stream.open = 0;
    if (stream.open === 0) this.#streams.delete(message.request);
    stream.queue.push(message);
    stream.wake();
  }

  #lose(reason, error = new Error(reason)) {
    for (const waiting of [...this.#waiting.values()].flat()) waiting.reject(error);
    this.#waiting.clear();
    for (const request of [...this.#streams.keys()]) {
      this.#flow({ type: "failed", request, problem: { code: "request_failed", message: reason } });
    }
  }
}

function promptField(prompt) {
  if (typeof prompt === "string") return { prompt };
  return typeof prompt[0] === "number" ? { prompt_ids: prompt } : { messages: prompt };
}

function failure(problem) {
  return Object.assign(new Error(problem.message), problem);
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const [endpoint = "tcp://127.0.0.1:5555", prompt = "The capital of France is"] = process.argv.slice(2);
  const client = await Client.connect(endpoint);
  for await (const message of client.generate(prompt, { max_tokens: 24, temperature: 0 })) {
    process.stdout.write(message.text);
  }
  process.stdout.write("\n");
  client.close();
}
