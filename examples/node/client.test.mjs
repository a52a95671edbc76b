// Against a running server: ENDPOINT=tcp://127.0.0.1:5555 npm test

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { Client } from "./client.mjs";

let client;
before(async () => (client = await Client.connect(process.env.ENDPOINT ?? "tcp://127.0.0.1:5555")));
after(() => client.close());

test("the gateway introduces itself", async () => {
  assert.equal(client.server.version, 1);
  assert.ok(client.server.vocab_size > 0);
  assert.ok((await client.ping()) >= 0);
});

test("a text, token ids and a chat are continued", async () => {
  for (const prompt of ["Once", [79, 110], [{ role: "user", content: "Hello" }]]) {
    const [choice] = await client.complete(prompt, { max_tokens: 5, ignore_eos: true, temperature: 0 });
    assert.equal(choice.usage.completion_tokens, choice.token_ids.length);
    assert.ok(choice.finish_reason === "length" || choice.finish_reason === "stop");
  }
});

test("the same seed gives the same continuations", async () => {
  const ask = () => client.complete("Once", { max_tokens: 5, seed: 7, n: 2 });
  const [one, two] = [await ask(), await ask()];
  assert.deepEqual(one.map((choice) => choice.text), two.map((choice) => choice.text));
  assert.equal(one[0].seed, 7);
});

test("requests on one connection do not mix", async () => {
  const ask = (prompt) => client.complete(prompt, { max_tokens: 8, temperature: 0 });
  const prompts = ["One", "Two", "Three", "Four"];
  const alone = [];
  for (const prompt of prompts) alone.push((await ask(prompt))[0].text);
  const together = await Promise.all(prompts.map(ask));
  assert.deepEqual(together.map(([choice]) => choice.text), alone);
});

test("without text there are ids only", async () => {
  const [choice] = await client.complete("Once", { max_tokens: 3 }, { want_text: false });
  assert.equal(choice.text, "");
  assert.ok(choice.token_ids.length > 0);
});

test("a prompt says how likely its tokens are, and adds no text", async () => {
  const [plain] = await client.complete("Once", { max_tokens: 3, temperature: 0 });
  const [scored] = await client.complete("Once", { max_tokens: 3, temperature: 0, prompt_logprobs: 0 });
  assert.equal(scored.text, plain.text);
  assert.equal(scored.prompt_logprobs.length, scored.usage.prompt_tokens);
  assert.equal(scored.prompt_logprobs[0].logprob, null);
});

test("a refusal names its field", async () => {
  const bad = client.complete("Once", { temperature: -1 });
  await assert.rejects(bad, { code: "invalid_request", field: "temperature" });
});

test("leaving the loop ends the request", async () => {
  for await (const _ of client.generate("Once", { max_tokens: 1000, ignore_eos: true })) break;
  for (;;) {
    if ((await client.stats()).running === 0) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
});
