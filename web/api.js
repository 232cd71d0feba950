// The server's HTTP API, as far as the page uses it. Every request goes to the server that the page
// came from.

import {settings} from './settings.js';
import {SseReader} from './sse.js';

/** What the server said instead of an answer. `status` 0: it did not say anything. */
export class ApiError extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

async function request(path, options = {}) {
  const headers = {...options.headers};
  if (settings.key !== '') headers.Authorization = `Bearer ${settings.key}`;
  let response;
  try {
    response = await fetch(path, {...options, headers, cache: 'no-store', credentials: 'omit'});
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new ApiError('The server does not answer. Is it still running?', 0);
  }
  if (!response.ok) throw new ApiError(await wordsOf(response), response.status);
  return response;
}

async function wordsOf(response) {
  try {
    const body = await response.json();
    const words = body.error?.message ?? body.reason;
    if (typeof words === 'string' && words !== '') return words;
  } catch {
    // Not from sluice: a proxy, perhaps.
  }
  return `The server answers ${response.status} ${response.statusText}.`;
}

export async function getJson(path) {
  return (await request(path)).json();
}

export async function getText(path) {
  return (await request(path)).text();
}

/** {ready: true}, or {ready: false, reason, loading} while the server takes no requests. */
export async function readiness() {
  const response = await fetch('/ready', {cache: 'no-store', credentials: 'omit'});
  return response.ok ? {ready: true} : {ready: false, ...(await response.json())};
}

/** The chunks of an answer as they come; throws what the server says in place of one. */
export async function* streamChat(body, signal) {
  const response = await request('/v1/chat/completions', {
    method: 'POST',
    headers: {'Content-Type': 'application/json'},
    body: JSON.stringify(body),
    signal,
  });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const events = new SseReader();
  for (;;) {
    let piece;
    try {
      piece = await reader.read();
    } catch (error) {
      if (signal.aborted) throw error;
      throw new ApiError('The connection broke off before the answer ended.', 0);
    }
    if (piece.done) throw new ApiError('The stream ended before the answer did.', 0);
    for (const data of events.push(piece.value)) {
      if (data === '[DONE]') return;
      const chunk = JSON.parse(data);
      if (chunk.error) throw new ApiError(chunk.error.message ?? 'The server failed.', response.status);
      yield chunk;
    }
  }
}
