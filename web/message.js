// One message on the page. An answer grows: what is complete of it is shown once, and only its last
// block is shown anew, at most once a frame and less often if that takes long.

import {codeBlock, copyButton, el, fromTree, growCode} from './dom.js';
import {amount, count, seconds} from './format.js';
import {MarkdownStream} from './markdown.js';

const FRAME_MS = 40;
// Below that, the first token and the last came at once, and a rate would say nothing.
const MIN_RATE_SECONDS = 0.05;
// Of the time, as much as this part may go into showing.
const BUSY_PART = 0.3;

/** A text in markdown that grows. */
class GrowingText {
  #stream = new MarkdownStream();
  #open = null;  // node of the last block
  #openTree = null;

  constructor() {
    this.node = el('div', {class: 'md'});
  }

  push(piece) {
    this.#stream.push(piece);
  }

  /** Whether there is more to show at once than one frame should. */
  show(isLast) {
    const {sealed, open, more} = this.#stream.take(isLast);
    if (sealed.length === 0 && this.#growCode(open)) return false;
    this.#open?.remove();
    this.#open = open === null ? null : fromTree(open);
    this.#openTree = open;
    this.node.append(...sealed.map(fromTree));
    if (this.#open !== null) this.node.append(this.#open);
    return more;
  }

  // Code that grows keeps its place and what is selected in it.
  #growCode(open) {
    const before = this.#openTree;
    if (open?.tag !== 'code-block' || before?.tag !== 'code-block') return false;
    if (before.language !== open.language || !open.text.startsWith(before.text)) return false;
    growCode(this.#open.querySelector('code'), open.text.slice(before.text.length));
    this.#openTree = open;
    return true;
  }
}

export class UserView {
  /** @param {{edit: (text: string) => void}} actions */
  constructor(message, actions) {
    this.message = message;
    this.#text = el('div', {class: 'bubble', dir: 'auto'}, message.content);
    this.#tools = el(
      'div',
      {class: 'meta'},
      copyButton(() => message.content),
      el('button', {type: 'button', class: 'quiet', onclick: () => this.#edit(actions.edit)}, 'Edit'),
    );
    this.node = el('article', {class: 'user', 'aria-label': 'You'}, this.#text, this.#tools);
  }

  #text;
  #tools;

  #edit(done) {
    const area = el('textarea', {'aria-label': 'Edit the message', rows: '3'});
    area.value = this.message.content;
    const close = () => this.node.replaceChildren(this.#text, this.#tools);
    const send = () => (area.value.trim() === '' ? close() : done(area.value.trim()));
    const buttons = el(
      'div',
      {class: 'meta open'},
      el('button', {type: 'button', class: 'quiet', onclick: close}, 'Cancel'),
      el('button', {type: 'button', class: 'quiet strong', onclick: send}, 'Send'),
    );
    area.addEventListener('keydown', (event) => {
      if (event.key === 'Escape') close();
      if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        send();
      }
    });
    this.node.replaceChildren(area, buttons);
    area.focus();
  }
}

/** The result of a call, as the reader gave it. */
export class ToolView {
  constructor(message) {
    this.message = message;
    const head = el('div', {class: 'call-head'}, 'Result');
    this.node = el('article', {class: 'tool', 'aria-label': 'Result of a call'}, head, codeBlock('', message.content));
  }
}

export class AssistantView {
  #reasoning = null;  // {fold, title, text}
  #content = new GrowingText();
  #calls = el('div', {class: 'calls'});
  #wait = el('div', {class: 'wait'});
  #meta = el('div', {class: 'meta'});
  #timer = 0;
  #nextAt = 0;  // not shown anew before
  #onshow;
  #actions;
  #began = performance.now();
  #first = 0;  // time of the first delta
  #last = 0;
  #nDeltas = 0;

  /**
   * @param {object} message as conversation.js has them; complete unless it `grows`
   * @param {{regenerate: () => void, isOpen: (call: object) => boolean,
   *   answerCall: (call: object, text: string) => void}} actions
   * @param {() => void} onshow called when the height may have changed
   */
  constructor(message, actions, onshow) {
    this.message = message;
    this.#actions = actions;
    this.#onshow = onshow;
    this.node = el('article', {class: 'assistant', 'aria-label': 'Answer'}, this.#wait, this.#content.node, this.#calls, this.#meta);
  }

  static complete(message, actions, onshow) {
    const view = new AssistantView(message, actions, onshow);
    view.add({reasoning: message.reasoning ?? '', content: message.content, hasCalls: false});
    view.finish();
    return view;
  }

  /** What there is to say before the first token. */
  waitFor(progress) {
    if (this.#nDeltas > 0) return;
    if (progress === null) {
      this.#wait.replaceChildren(el('span', {class: 'dots'}, 'Waiting for the first token'));
      return;
    }
    const {total, processed, cache} = progress;
    const bar = el('progress', {max: String(total), value: String(processed), 'aria-label': 'Prompt read'});
    const cached = cache > 0 ? `, ${count(cache)} of them from the cache` : '';
    this.#wait.replaceChildren(bar, el('span', {}, `Reading the prompt: ${count(processed)} of ${count(total)} tokens${cached}`));
    this.#onshow();
  }

  /** Shows what addChunk of conversation.js said is new. */
  add(news) {
    if (news.reasoning === '' && news.content === '' && !news.hasCalls) return;
    this.#last = performance.now();
    if (this.#nDeltas++ === 0) this.#first = this.#last;
    if (news.reasoning !== '') this.#reason(news.reasoning);
    if (news.content !== '') this.#content.push(news.content);
    if (this.#timer !== 0) return;
    this.#timer = setTimeout(() => this.#show(false), Math.max(0, this.#nextAt - this.#last));
  }

  /** The answer is as complete as it will be: message.end says why. */
  finish() {
    clearTimeout(this.#timer);
    if (this.#nDeltas > 1) this.message.seconds ??= (this.#last - this.#first) / 1000;
    this.message.firstSeconds ??= this.#nDeltas > 0 ? (this.#first - this.#began) / 1000 : undefined;
    this.#show(true);
  }

  #show(isLast) {
    const begin = performance.now();
    this.#wait.replaceChildren();
    let more = this.#reasoning?.text.show(isLast) ?? false;
    more = this.#content.show(isLast) || more;
    this.#showCalls(isLast);
    if (this.#reasoning !== null) this.#showFold(isLast);
    isLast ? this.#showEnd() : this.#showRate();
    this.#onshow();
    // A slow one must leave time for the reader.
    const end = performance.now();
    const pause = Math.max(FRAME_MS, (end - begin) / BUSY_PART);
    this.#nextAt = end + pause;
    this.#timer = more ? setTimeout(() => this.#show(isLast), pause) : 0;
  }


  #reason(piece) {
    if (this.#reasoning === null) {
      const text = new GrowingText();
      const title = el('summary', {}, 'Thinking');
      this.#reasoning = {fold: el('details', {class: 'reasoning'}, title, text.node), title, text};
      this.node.insertBefore(this.#reasoning.fold, this.#content.node);
    }
    this.#reasoning.text.push(piece);
  }

  #showFold(isLast) {
    const isOver = isLast || this.message.content !== '' || (this.message.calls ?? []).length > 0;
    this.#reasoning.title.textContent = isOver ? 'Reasoning' : 'Thinking …';
    this.#reasoning.fold.classList.toggle('busy', !isOver);
  }

  #showCalls(isLast) {
    const calls = this.message.calls ?? [];
    while (this.#calls.children.length < calls.length) this.#calls.append(el('div', {class: 'call'}));
    calls.forEach((call, i) => {
      const card = this.#calls.children[i];
      const state = isLast ? 'complete' : String(call.arguments.length);
      if (card.dataset.state === state) return;
      card.dataset.state = state;
      card.replaceChildren(el('div', {class: 'call-head'}, 'Calls ', el('code', {}, call.name)), codeBlock('json', pretty(call.arguments)));
      if (isLast && this.#actions.isOpen(call)) card.append(this.#resultForm(call));
    });
  }

  #resultForm(call) {
    const area = el('textarea', {rows: '2', 'aria-label': `Result of ${call.name}`, placeholder: 'What the tool answers'});
    const send = () => {
      form.remove();
      this.#actions.answerCall(call, area.value);
    };
    const form = el('div', {class: 'result'}, area, el('button', {type: 'button', class: 'quiet strong', onclick: send}, 'Give this result'));
    return form;
  }

  #showRate() {
    const elapsed = (this.#last - this.#first) / 1000;
    if (elapsed < 0.5) return;
    this.#meta.classList.add('open');
    this.#meta.replaceChildren(el('span', {title: 'Pieces of the stream a second; a piece is nearly always one token'}, `≈ ${amount(this.#nDeltas / elapsed)} tokens/s`));
  }

  #showEnd() {
    const {usage, end, error} = this.message;
    this.#meta.classList.remove('open');
    const facts = [];
    if (usage) facts.push(...factsOf(usage, this.message));
    if (end === 'stopped') facts.push('stopped');
    if (end === 'length') facts.push('cut at the limit');
    const buttons = [copyButton(() => this.message.content), el('button', {type: 'button', class: 'quiet', onclick: this.#actions.regenerate}, 'Regenerate')];
    this.#meta.replaceChildren(el('span', {class: 'facts'}, facts.join(' · ')), ...buttons);
    if (error && this.node.querySelector('.error') === null) {
      this.node.insertBefore(el('div', {class: 'error', role: 'alert'}, error), this.#meta);
    }
  }
}

function factsOf(usage, message) {
  const facts = [`${count(usage.completion_tokens)} tokens`];
  if (message.seconds > MIN_RATE_SECONDS && usage.completion_tokens > 1) facts.push(`${amount((usage.completion_tokens - 1) / message.seconds)} tokens/s`);
  if (message.firstSeconds !== undefined) facts.push(`first after ${seconds(message.firstSeconds)}`);
  const cached = usage.prompt_tokens_details?.cached_tokens ?? 0;
  facts.push(`prompt ${count(usage.prompt_tokens)}, ${count(cached)} cached`);
  return facts;
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;  // not complete yet, or never
  }
}
