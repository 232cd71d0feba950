// The official OpenAI SDK for Node against a server that plays battery.py's script.
// usage: node sdk_openai.mjs BASE_URL ADMIN_URL KEY; prints "ok NAME" for each case, throws at the first that fails.
import assert from "node:assert/strict";
import OpenAI from "openai";
import { matrix, run } from "./sdk_matrix.mjs";

const newClient = (options = {}) =>
  new OpenAI({ baseURL: process.argv[2], apiKey: process.argv[4], maxRetries: 0, ...options });
const client = newClient();
const model = "deepseek-flash";
const user = (content) => [{ role: "user", content }];
const parameters = { type: "object", properties: { harbour: { type: "string" } }, required: ["harbour"] };
const tide = { name: "tide", description: "Height of the tide.", parameters };
const chatTools = [{ type: "function", function: tide }];
const responseTools = [{ type: "function", strict: false, ...tide }];

const cases = {
  async "chat whole"() {
    const answer = await client.chat.completions.create({ model, messages: user("[[text]]") });
    assert.equal(answer.choices[0].message.content, "Hello, world.");
    assert.equal(answer.choices[0].message.reasoning_content, "I think.");
    assert.equal(answer.choices[0].finish_reason, "stop");
    assert.equal(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens);
    assert.equal(typeof answer.usage.prompt_tokens_details.cached_tokens, "number");
    assert.ok(answer.usage.completion_tokens_details.reasoning_tokens > 0);
  },
  async "chat stream helper"() {
    const stream = client.chat.completions.stream({
      model, messages: user("[[text]]"), stream_options: { include_usage: true },
    });
    let text = "";
    stream.on("content", (delta) => { text += delta; });
    const answer = await stream.finalChatCompletion();
    assert.equal(text, "Hello, world.");
    assert.equal(answer.choices[0].message.content, text);
    assert.ok((await stream.totalUsage()).completion_tokens > 0);
  },
  async "chat tool runner"() {
    const seen = [];
    const run = async ({ harbour }) => { seen.push(harbour); return "4.2 m"; };
    const tools = [{ type: "function", function: { ...tide, function: run, parse: JSON.parse } }];
    const runner = client.chat.completions.runTools({ model, messages: user("[[call]]"), tools });
    assert.equal(await runner.finalContent(), "It is 4.2 m.");
    assert.deepEqual(seen, ["Brest"]);
  },
  async "chat parallel calls in a stream"() {
    const stream = await client.chat.completions.create({
      model, messages: user("[[parallel]]"), tools: chatTools, stream: true,
    });
    const found = [];
    let reason = null;
    for await (const chunk of stream) {
      for (const part of chunk.choices[0].delta.tool_calls ?? []) {
        if (part.id) found[part.index] = { id: part.id, name: part.function.name, text: "" };
        found[part.index].text += part.function.arguments ?? "";
      }
      reason = chunk.choices[0].finish_reason ?? reason;
    }
    assert.equal(reason, "tool_calls");
    assert.deepEqual(found.map((c) => JSON.parse(c.text).harbour), ["Brest", "Bruges"]);
    assert.equal(new Set(found.map((c) => c.id)).size, 2);
  },
  async "responses whole and by reference"() {
    const first = await client.responses.create({ model, input: "[[text]]", store: true });
    assert.equal(first.output_text, "Hello, world.");
    assert.deepEqual(first.output.map((item) => item.type), ["reasoning", "message"]);
    const again = await client.responses.retrieve(first.id);
    assert.deepEqual(again.output, first.output);
    const next = await client.responses.create({ model, input: "[[text]]", previous_response_id: first.id });
    assert.equal(next.previous_response_id, first.id);
    assert.ok(next.usage.input_tokens > first.usage.input_tokens);
    await client.responses.delete(first.id);
    await assert.rejects(client.responses.retrieve(first.id), OpenAI.NotFoundError);
  },
  async "responses stream helper"() {
    const stream = client.responses.stream({ model, input: "[[call]]", tools: responseTools });
    const numbers = [];
    stream.on("event", (event) => numbers.push(event.sequence_number));
    const answer = await stream.finalResponse();
    assert.deepEqual(numbers, numbers.map((_, i) => i));
    const call = answer.output.find((item) => item.type === "function_call");
    assert.equal(call.arguments, '{"harbour": "Brest"}');
    assert.equal(answer.status, "completed");
    const output = { type: "function_call_output", call_id: call.call_id, output: "4.2 m" };
    const input = [{ role: "user", content: "[[call]]" }, ...answer.output, output];
    const end = await client.responses.create({ model, tools: responseTools, input });
    assert.equal(end.output_text, "It is 4.2 m.");
  },
  async "error codes"() {
    const ask = (content, more) => client.chat.completions.create({ model, messages: user(content), ...more });
    await assert.rejects(ask("[[text]]", { model: "other" }), (e) => e.code === "model_not_found" && e.param === "model");
    await assert.rejects(ask("[[context]]"), (e) => e.code === "context_length_exceeded");
  },
  async "an aborted stream"() {
    const stream = await client.chat.completions.create({ model, messages: user("[[long]]"), stream: true });
    let n = 0;
    for await (const _ of stream) if (++n === 5) stream.controller.abort();
    assert.ok(n < 100);
  },
  async "models"() {
    const names = [];
    for await (const entry of client.models.list()) names.push(entry.id);
    assert.ok(names.includes(model));
  },
};

function takeChatPart(part, got) {
  got.text += part.content ?? "";
  got.reasoning += part.reasoning_content ?? "";
  for (const call of part.tool_calls ?? []) {
    if (call.id) got.calls[call.index] = [call.id, call.function.name, ""];
    got.calls[call.index][2] += call.function.arguments ?? "";
  }
}

function takeUsage(usage, got) {
  if (!usage) return;
  assert.equal(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens);
  got.nPrompt = usage.prompt_tokens;
  got.nCached = usage.prompt_tokens_details.cached_tokens;
  got.nOutput = usage.completion_tokens;
}

const withUsage = (body) => (body.stream ? { ...body, stream_options: { include_usage: true } } : body);

const openai = { client: newClient, errors: OpenAI, overloadedStatus: 503, tooHot: { temperature: 9 } };

const chat = {
  ...openai,
  name: "chat",
  called: "tool_calls",
  thinkingOff: { thinking: { type: "disabled" } },
  tools: chatTools,
  choices: { required: "required", named: { type: "function", function: { name: "tide" } } },
  body: (text, more) => withUsage({ model, messages: user(text), ...more }),
  create: (sdk, body, options) => sdk.chat.completions.create(body, options),
  async read(answer, stream) {
    const got = { reasoning: "", text: "", calls: [], finish: null };
    for await (const chunk of stream ? answer : [answer]) {
      for (const choice of chunk.choices) {
        takeChatPart(stream ? choice.delta : choice.message, got);
        got.finish = choice.finish_reason ?? got.finish;
      }
      takeUsage(chunk.usage, got);
    }
    got.calls = got.calls.map(([id, name, text]) => [id, name, JSON.parse(text)]);
    return got;
  },
};

const completions = {
  ...openai,
  name: "completions",
  body: (text, more) => withUsage({ model, prompt: text, ...more }),
  create: (sdk, body, options) => sdk.completions.create(body, options),
  async read(answer, stream) {
    const got = { text: "" };
    for await (const chunk of stream ? answer : [answer]) {
      for (const choice of chunk.choices) got.text += choice.text;
      takeUsage(chunk.usage, got);
    }
    return got;
  },
};

function readResponse(response) {
  const got = { reasoning: "", text: response.output_text ?? "", calls: [], finish: response.status };
  for (const item of response.output) {
    if (item.type === "reasoning") got.reasoning += item.content.map((part) => part.text).join("");
    if (item.type === "function_call") got.calls.push([item.call_id, item.name, JSON.parse(item.arguments)]);
  }
  got.nPrompt = response.usage.input_tokens;
  got.nCached = response.usage.input_tokens_details.cached_tokens;
  got.nOutput = response.usage.output_tokens;
  assert.equal(response.usage.total_tokens, got.nPrompt + got.nOutput);
  return got;
}

const responses = {
  ...openai,
  name: "responses",
  called: "completed",
  thinkingOff: { reasoning: { effort: "none" } },
  tools: responseTools,
  choices: { required: "required", named: { type: "function", name: "tide" } },
  body: (text, more) => ({ model, input: text, ...more }),
  create: (sdk, body, options) => sdk.responses.create(body, options),
  async read(answer, stream) {
    if (!stream) return readResponse(answer);
    let final = null;
    let text = "";
    for await (const event of answer) {
      if (event.type === "response.output_text.delta") text += event.delta;
      if (event.type === "response.completed") final = event.response;
      if (event.type === "response.failed") throw new OpenAI.APIError(500, event.response.error, undefined, undefined);
    }
    const got = readResponse(final);
    return { ...got, text };
  },
};

await run({ ...cases, ...matrix(chat), ...matrix(responses), ...matrix(completions) });
