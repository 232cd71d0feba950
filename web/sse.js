// Reads a stream of server-sent events. Pure: text in, the data of whole events out.
//
// Lines may end in \n, \r\n or \r, and pieces may be cut anywhere. Comments and fields other than
// `data` are skipped. An event that never ends is given up at MAX_EVENT_CHARS.

const MAX_EVENT_CHARS = 8 * 1024 * 1024;

export class SseReader {
  #line = '';
  #data = [];
  #size = 0;
  #endedInCr = false;

  /**
   * @param {string} text the next piece of the stream
   * @returns {string[]} the data of each event that this piece completes
   */
  push(text) {
    const events = [];
    let from = 0;
    if (this.#endedInCr && text.startsWith('\n')) from = 1;
    if (text !== '') this.#endedInCr = text.endsWith('\r');
    for (;;) {
      const end = nextBreak(text, from);
      if (end < 0) break;
      this.#take(this.#line + text.slice(from, end), events);
      this.#line = '';
      from = text[end] === '\r' && text[end + 1] === '\n' ? end + 2 : end + 1;
    }
    this.#line += text.slice(from);
    if (this.#line.length + this.#size > MAX_EVENT_CHARS) throw new Error('an event of the stream is too long');
    return events;
  }

  #take(line, events) {
    if (line === '') {
      if (this.#data.length > 0) events.push(this.#data.join('\n'));
      this.#data = [];
      this.#size = 0;
      return;
    }
    if (line !== 'data' && !line.startsWith('data:')) return;
    const value = line.slice(5).replace(/^ /, '');
    this.#data.push(value);
    this.#size += value.length;
  }
}

function nextBreak(text, from) {
  const lf = text.indexOf('\n', from);
  const cr = text.indexOf('\r', from);
  if (lf < 0 || cr < 0) return Math.max(lf, cr);
  return Math.min(lf, cr);
}
