// The questions that every surface of the official SDKs for Node is asked, streamed and whole; those of Python are in
// tests/e2e/test_sdk_battery.py. A surface gives:
//   name, errors (the SDK's module), overloadedStatus, called (how an answer with calls finishes)
//   client(options)                     its client, with options of the SDK
//   body(text, more)                    a request
//   create(client, body, options)       the SDK's promise of an answer or a stream
//   read(answer, stream)                {reasoning, text, calls: [[id, name, value]], finish, nPrompt, nCached, nOutput}
//   tools, choices {required, named}    or no tools
//   thinkingOff, tooHot                 members of a body
import assert from "node:assert/strict";

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

function toolCases(surface, ask, label) {
  const called = [["tide", { harbour: "Brest" }], ["tide", { harbour: "Bruges" }]];
  const withoutIds = (calls) => calls.map(([, name, value]) => [name, value]);
  const cases = {
    async [`parallel tools, ${label}`]() {
      const got = await ask("[[parallel]]", { tools: surface.tools });
      assert.deepEqual(withoutIds(got.calls), called);
      assert.equal(new Set(got.calls.map(([id]) => id)).size, 2);
      assert.deepEqual([got.reasoning, got.text, got.finish], ["Two of them.", "", surface.called]);
    },
  };
  for (const [choice, tool_choice] of Object.entries(surface.choices)) {
    for (const thinks of [false, true]) {
      cases[`a ${choice} tool, ${thinks ? "thinking" : "plain"}, ${label}`] = async () => {
        const more = { tools: surface.tools, tool_choice, ...(thinks ? {} : surface.thinkingOff) };
        const got = await ask("[[forced]]", more);
        assert.deepEqual(withoutIds(got.calls), called.slice(0, 1));
        assert.deepEqual([got.reasoning, got.text, got.finish], [thinks ? "I must." : "", "", surface.called]);
      };
    }
  }
  for (const thinks of [false, true]) {
    cases[`thinking ${thinks ? "on" : "off"}, ${label}`] = async () => {
      const got = await ask("[[text]]", thinks ? {} : surface.thinkingOff);
      assert.deepEqual([got.reasoning, got.text], [thinks ? "I think." : "", "Hello, world."]);
    };
  }
  return cases;
}

function errorCases(surface, stream, label) {
  const { errors } = surface;
  const table = {
    "bad value": { status: 400, kind: errors.BadRequestError, more: surface.tooHot },
    context: { status: 400, kind: errors.BadRequestError, text: /prompt is too long: \d+ tokens > \d+ maximum/ },
    key: { status: 401, kind: errors.AuthenticationError, options: { apiKey: "wrong-key-2718" } },
    origin: { status: 403, kind: errors.PermissionDeniedError, options: { defaultHeaders: { Origin: "http://evil.example" } } },
    path: { status: 404, kind: errors.NotFoundError, options: { baseURL: `${new URL(process.argv[2]).origin}/nowhere` } },
    size: { status: 413, kind: errors.APIError, content: "x".repeat(70_000) },
    busy: { status: 429, kind: errors.RateLimitError, retries: true },
    internal: { status: 500, kind: errors.InternalServerError },
    overloaded: { status: surface.overloadedStatus, kind: errors.InternalServerError, retries: true },
  };
  if (!stream) table.late = { status: 504, kind: errors.InternalServerError };
  const cases = {};
  for (const [name, wanted] of Object.entries(table)) {
    cases[`error ${name}, ${label}`] = async () => {
      const client = surface.client(wanted.options ?? {});
      const body = surface.body(wanted.content ?? `[[${name}]]`, { stream, ...wanted.more });
      await assert.rejects(surface.create(client, body), (error) => {
        assert.ok(error instanceof wanted.kind, `${error.constructor.name}: ${error.message}`);
        assert.equal(error.status, wanted.status);
        assert.ok(error.requestID);
        assert.equal(error.headers.has("retry-after-ms"), wanted.retries ?? false);
        if (wanted.text) assert.match(error.message, wanted.text);
        return true;
      });
    };
  }
  return cases;
}

// How many requests run: asked on the admin port.
async function running() {
  const text = await (await fetch(`${process.argv[3]}/metrics`)).text();
  return Number(text.match(/^\S*requests_running (\d+)/m)[1]);
}

async function untilRunning(n) {
  for (let i = 0; (await running()) !== n; ++i) {
    assert.ok(i < 100, `not within 2 s: ${n} requests running`);
    await sleep(20);
  }
}

function cancelCase(surface, stream) {
  return async () => {
    const controller = new AbortController();
    const body = surface.body("[[hang]]", { stream });
    const answer = surface.create(surface.client(), body, { signal: controller.signal });
    const read = (async () => {
      const parts = await answer;
      for await (const _ of parts) { /* until it is left */ }
    })().catch((error) => error);
    await untilRunning(1);
    controller.abort();
    await read;
    await untilRunning(0);
  };
}

export function matrix(surface) {
  const cases = {};
  for (const stream of [false, true]) {
    const label = `${surface.name} ${stream ? "streamed" : "whole"}`;
    const ask = async (text, more) =>
      surface.read(await surface.create(surface.client(), surface.body(text, { stream, ...more })), stream);
    if (surface.tools) Object.assign(cases, toolCases(surface, ask, label));
    Object.assign(cases, errorCases(surface, stream, label));
    cases[`leaving, ${label}`] = cancelCase(surface, stream);
  }
  cases[`usage, ${surface.name}`] = async () => {
    const read = async (stream) =>
      surface.read(await surface.create(surface.client(), surface.body("[[cached]]", { stream })), stream);
    const [whole, streamed] = [await read(false), await read(true)];
    assert.ok(whole.nPrompt > whole.nCached && whole.nCached === 3 && whole.nOutput > 0);
    const numbers = ({ nPrompt, nCached, nOutput }) => [nPrompt, nCached, nOutput];
    assert.deepEqual(numbers(streamed), numbers(whole));
  };
  for (const mark of ["[[fail]]", "[[late]]"]) {
    cases[`an error in a stream ${mark}, ${surface.name}`] = async () => {
      const answer = await surface.create(surface.client(), surface.body(mark, { stream: true }));
      await assert.rejects(async () => surface.read(answer, true), surface.errors.APIError);
    };
  }
  return cases;
}

export async function run(cases) {
  for (const [name, test] of Object.entries(cases)) {
    try {
      await test();
    } catch (error) {
      console.log(`failed: ${name}`);
      throw error;
    }
    console.log(`ok ${name}`);
  }
}
