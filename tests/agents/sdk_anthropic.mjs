// The official Anthropic SDK for Node against a server that plays battery.py's script.
// usage: node sdk_anthropic.mjs BASE_URL; prints "ok NAME" for each case, throws at the first that fails.
import assert from "node:assert/strict";
import Anthropic from "@anthropic-ai/sdk";

const client = new Anthropic({ baseURL: process.argv[2], apiKey: "key", maxRetries: 0 });
const base = { model: "claude-sonnet-5", max_tokens: 4096 };
const user = (content) => [{ role: "user", content }];
const input_schema = { type: "object", properties: { harbour: { type: "string" } }, required: ["harbour"] };
const tools = [{ name: "tide", description: "Height of the tide.", input_schema }];

const cases = {
  async "whole"() {
    const answer = await client.messages.create({ ...base, messages: user("[[text]]") });
    assert.deepEqual(answer.content.map((block) => block.type), ["thinking", "text"]);
    assert.equal(answer.content[0].thinking, "I think.");
    assert.ok(answer.content[0].signature.length > 0);
    assert.equal(answer.content[1].text, "Hello, world.");
    assert.equal(answer.stop_reason, "end_turn");
    const counted = await client.messages.countTokens({ model: base.model, messages: user("[[text]]") });
    assert.equal(answer.usage.input_tokens + answer.usage.cache_read_input_tokens, counted.input_tokens);
  },
  async "stream helper"() {
    const stream = client.messages.stream({ ...base, messages: user("[[text]]") });
    let text = "";
    let thinking = "";
    stream.on("text", (delta) => { text += delta; });
    stream.on("thinking", (delta) => { thinking += delta; });
    const answer = await stream.finalMessage();
    assert.equal(text, "Hello, world.");
    assert.equal(thinking, "I think.");
    assert.equal(answer.content[1].text, text);
    assert.ok(answer.usage.input_tokens > 0 && answer.usage.output_tokens > 0);
  },
  async "a tool loop"() {
    const messages = user("[[call]]");
    const first = await client.messages.stream({ ...base, messages, tools }).finalMessage();
    assert.equal(first.stop_reason, "tool_use");
    const call = first.content.find((block) => block.type === "tool_use");
    assert.deepEqual(call.input, { harbour: "Brest" });
    messages.push({ role: "assistant", content: first.content });
    messages.push({ role: "user", content: [{ type: "tool_result", tool_use_id: call.id, content: "4.2 m" }] });
    const last = await client.messages.create({ ...base, messages, tools });
    assert.equal(last.content.at(-1).text, "It is 4.2 m.");
  },
  async "parallel calls"() {
    const answer = await client.messages.create({ ...base, messages: user("[[parallel]]"), tools });
    const found = answer.content.filter((block) => block.type === "tool_use");
    assert.deepEqual(found.map((block) => block.input.harbour), ["Brest", "Bruges"]);
    assert.notEqual(found[0].id, found[1].id);
  },
  async "a stop sequence"() {
    const answer = await client.messages.create({ ...base, messages: user("[[stop]]"), stop_sequences: ["END"] });
    assert.equal(answer.stop_reason, "stop_sequence");
    assert.equal(answer.stop_sequence, "END");
    assert.equal(answer.content.at(-1).text, "one two ");
  },
  async "error classes"() {
    const ask = (content, more) => client.messages.create({ ...base, messages: user(content), ...more });
    await assert.rejects(ask("[[text]]", { temperature: 9 }), Anthropic.BadRequestError);
    await assert.rejects(ask("[[busy]]"), Anthropic.RateLimitError);
    await assert.rejects(ask("[[overloaded]]"), (e) => e.status === 529 && e.error.error.type === "overloaded_error");
    await assert.rejects(ask("[[internal]]"), Anthropic.InternalServerError);
    await assert.rejects(ask("[[context]]"), /prompt is too long: \d+ tokens > \d+ maximum/);
    await assert.rejects(client.messages.stream({ ...base, messages: user("[[fail]]") }).finalMessage());
  },
  async "models"() {
    const page = await client.models.list();
    assert.ok(page.data.some((entry) => entry.id === "deepseek-flash" && entry.display_name));
    assert.equal(page.has_more, false);
  },
};

for (const [name, run] of Object.entries(cases)) {
  await run();
  console.log(`ok ${name}`);
}
