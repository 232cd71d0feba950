// The talk: its messages, what is sent of them, and what of them outlives a reload. Pure, but for
// the storage that is given.
//
// A message is {role: 'user' | 'assistant' | 'tool', content}; of the assistant also reasoning,
// calls: [{id, name, arguments}], usage, seconds (from the first token to the last), end: 'stop',
// 'length', 'tool_calls', 'stopped' (by the reader) or 'error' with error: the words for it; of a
// tool also callId.

const STORAGE_NAME = 'sluice.conversation';
const MAX_MESSAGES = 2000;
// Browsers give five million to an address; the oldest messages are let go of first.
const MAX_STORED_CHARS = 2_000_000;

// The result of a call that the reader gave none.
const NOT_ANSWERED = 'not answered';
const NUMBERS = {temperature: 'Temperature', top_p: 'Top p', max_tokens: 'Most tokens'};

/** Settings that cannot be sent: the name of each, and why. */
export function wrongSettings(settings) {
  const wrong = {};
  for (const [name, label] of Object.entries(NUMBERS)) {
    if (!Number.isFinite(Number(settings[name]))) wrong[name] = `${label} must be a number such as 0.5 or 20`;
  }
  try {
    if (settings.tools !== '' && !Array.isArray(JSON.parse(settings.tools))) wrong.tools = 'Tools must be a JSON list';
  } catch (error) {
    wrong.tools = `Tools must be a JSON list: ${error.message}`;
  }
  return wrong;
}

/** The settings hold what cannot be sent. */
export class SettingsError extends Error {}

export class Conversation {
  constructor(messages = []) {
    this.messages = messages;
  }

  /** What a reload found; nothing if it is not what save() has written. */
  static load(storage) {
    try {
      const stored = JSON.parse(storage.getItem(STORAGE_NAME) ?? '[]');
      return new Conversation(Array.isArray(stored) ? stored.filter(isMessage).slice(-MAX_MESSAGES) : []);
    } catch {
      return new Conversation();
    }
  }

  save(storage) {
    let kept = this.messages.slice(-MAX_MESSAGES);
    let text = JSON.stringify(kept);
    while (text.length > MAX_STORED_CHARS && kept.length > 0) {
      kept = kept.slice(Math.ceil(kept.length / 4));
      text = JSON.stringify(kept);
    }
    try {
      storage.setItem(STORAGE_NAME, text);
    } catch {
      storage.removeItem(STORAGE_NAME);  // full or forbidden: the page works without
    }
  }

  /** Lets go of a message and all behind it. */
  cutAt(message) {
    const at = this.messages.indexOf(message);
    if (at >= 0) this.messages.length = at;
  }

  /** Calls that wait for the reader: of the last answer, while nothing but results stands behind it. */
  openCalls() {
    const at = this.messages.findLastIndex((message) => message.role !== 'tool');
    if (at < 0) return [];
    const results = resultsBehind(this.messages, at);
    return callsOf(this.messages[at]).filter((call) => !results.has(call.id));
  }

  /**
   * The body of a request for the next answer.
   * @param {object} settings as settings.js has them
   * @throws {SettingsError} if they cannot be sent
   */
  request(settings) {
    const [wrong] = Object.values(wrongSettings(settings));
    if (wrong !== undefined) throw new SettingsError(`The settings cannot be sent. ${wrong}`);
    const messages = this.messages.flatMap((message, at) => wireTurn(message, resultsBehind(this.messages, at)));
    if (settings.system !== '') messages.unshift({role: 'system', content: settings.system});
    const body = {
      model: settings.model,
      messages,
      stream: true,
      stream_options: {include_usage: true},
      return_progress: true,
    };
    for (const name of Object.keys(NUMBERS)) {
      if (settings[name] !== '') body[name] = Number(settings[name]);
    }
    if (settings.tools !== '') body.tools = JSON.parse(settings.tools);
    if (settings.thinking === 'off') body.thinking = {type: 'disabled'};
    else if (settings.thinking !== 'default') {
      body.thinking = {type: 'enabled'};
      if (settings.thinking !== 'on') body.reasoning_effort = settings.thinking;
    }
    return body;
  }
}

function isMessage(value) {
  return (
    typeof value === 'object' &&
    value !== null &&
    ['user', 'assistant', 'tool'].includes(value.role) &&
    typeof value.content === 'string' &&
    ['string', 'undefined'].includes(typeof value.reasoning) &&
    (value.calls === undefined || Array.isArray(value.calls))
  );
}

// A call that was cut is none: neither its arguments nor whether more would have come is known.
function callsOf(message) {
  return message.end === 'tool_calls' ? (message.calls ?? []) : [];
}

// What the reader answered to the calls of the message at `at`: id → text.
function resultsBehind(messages, at) {
  const results = new Map();
  for (let i = at + 1; messages[i]?.role === 'tool'; i++) results.set(messages[i].callId, messages[i].content);
  return results;
}

// A message as it is sent: with one result for each of its calls, as the server demands, and so
// results are sent with their calls alone. An answer that brought nothing is not sent.
function wireTurn(message, results) {
  if (message.role === 'tool') return [];
  if (message.role === 'user') return [{role: 'user', content: message.content}];
  const calls = callsOf(message);
  if (message.content === '' && calls.length === 0) return [];
  const wire = {role: 'assistant', content: message.content};
  if (message.reasoning) wire.reasoning_content = message.reasoning;
  if (calls.length === 0) return [wire];
  wire.tool_calls = calls.map((call) => ({
    id: call.id,
    type: 'function',
    function: {name: call.name, arguments: call.arguments},
  }));
  return [wire, ...calls.map((call) => ({role: 'tool', tool_call_id: call.id, content: results.get(call.id) ?? NOT_ANSWERED}))];
}

/**
 * Adds what a chunk of the stream says to the message that it is part of.
 * @returns {{reasoning: string, content: string, hasCalls: boolean}} what is new
 */
export function addChunk(message, chunk) {
  const news = {reasoning: '', content: '', hasCalls: false};
  if (chunk.usage) message.usage = chunk.usage;
  const choice = chunk.choices?.[0];
  if (choice === undefined) return news;
  const delta = choice.delta ?? {};
  news.reasoning = delta.reasoning_content ?? '';
  news.content = delta.content ?? '';
  message.reasoning = (message.reasoning ?? '') + news.reasoning;
  message.content += news.content;
  for (const piece of delta.tool_calls ?? []) {
    news.hasCalls = true;
    message.calls ??= [];
    const call = (message.calls[piece.index] ??= {id: '', name: '', arguments: ''});
    call.id = piece.id ?? call.id;
    call.name += piece.function?.name ?? '';
    call.arguments += piece.function?.arguments ?? '';
  }
  if (choice.finish_reason) message.end = choice.finish_reason;
  return news;
}
