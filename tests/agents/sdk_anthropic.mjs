// The official Anthropic SDK for Node against a server that plays battery.py's script.
// usage: node sdk_anthropic.mjs BASE_URL ADMIN_URL KEY; prints "ok NAME" for each case, throws at the first that fails.
import assert from "node:assert/strict";
import Anthropic from "@anthropic-ai/sdk";
import { matrix, run } from "./sdk_matrix.mjs";

const newClient = (options = {}) =>
  new Anthropic({ baseURL: process.argv[2], apiKey: process.argv[4], maxRetries: 0, ...options });
const client = newClient();
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
  async "a stop sequence"() {
    const answer = await client.messages.create({ ...base, messages: user("[[stop]]"), stop_sequences: ["END"] });
    assert.equal(answer.stop_reason, "stop_sequence");
    assert.equal(answer.stop_sequence, "END");
    assert.equal(answer.content.at(-1).text, "one two ");
  },
  async "error types"() {
    const type = async (content, more) => {
      const error = await client.messages.create({ ...base, messages: user(content), ...more }).catch((e) => e);
      return error.error.error.type;
    };
    assert.equal(await type("[[text]]", { temperature: 9 }), "invalid_request_error");
    assert.equal(await type("[[busy]]"), "rate_limit_error");
    assert.equal(await type("[[overloaded]]"), "overloaded_error");
    assert.equal(await type("[[internal]]"), "api_error");
  },
  async "models"() {
    const page = await client.models.list();
    assert.ok(page.data.some((entry) => entry.id === "deepseek-flash" && entry.display_name));
    assert.equal(page.has_more, false);
  },
};

function readMessage(message) {
  const got = { reasoning: "", text: "", calls: [], finish: message.stop_reason };
  for (const block of message.content) {
    if (block.type === "thinking") got.reasoning += block.thinking;
    if (block.type === "text") got.text += block.text;
    if (block.type === "tool_use") got.calls.push([block.id, block.name, block.input]);
  }
  got.nCached = message.usage.cache_read_input_tokens;
  got.nPrompt = message.usage.input_tokens + got.nCached;
  got.nOutput = message.usage.output_tokens;
  return got;
}

// Puts a message together from its events, as the SDK's stream helper does.
async function joined(events) {
  let message = null;
  for await (const event of events) {
    if (event.type === "message_start") message = event.message;
    if (event.type === "content_block_start") message.content[event.index] = { ...event.content_block, partial: "" };
    if (event.type === "content_block_delta") {
      const block = message.content[event.index];
      block.text += event.delta.text ?? "";
      block.thinking += event.delta.thinking ?? "";
      block.partial += event.delta.partial_json ?? "";
    }
    if (event.type === "message_delta") {
      message.stop_reason = event.delta.stop_reason;
      Object.assign(message.usage, event.usage);
    }
  }
  for (const block of message.content) if (block.type === "tool_use") block.input = JSON.parse(block.partial);
  return message;
}

const messages = {
  name: "messages",
  client: newClient,
  errors: Anthropic,
  overloadedStatus: 529,
  called: "tool_use",
  thinkingOff: { thinking: { type: "disabled" } },
  tooHot: { temperature: 9 },
  tools,
  choices: { required: { type: "any" }, named: { type: "tool", name: "tide" } },
  body: (text, more) => ({ ...base, messages: user(text), ...more }),
  create: (sdk, body, options) => sdk.messages.create(body, options),
  read: async (answer, stream) => readMessage(stream ? await joined(answer) : answer),
};

await run({ ...cases, ...matrix(messages) });
