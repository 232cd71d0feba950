// The chat: messages, the line to write in, and the one answer that may be under way.

import {ApiError, getJson, streamChat} from './api.js';
import {Conversation, SettingsError, addChunk} from './conversation.js';
import {AssistantView, ToolView, UserView} from './message.js';
import {settings} from './settings.js';
import {tabStorage} from './storage.js';

// As near to the end as this counts as being there.
const END_PIXELS = 60;
const SAVE_MS = 1000;
// A page that goes takes its connections along; what breaks so soon after is no fault of the server.
const LEAVE_MS = 2000;

export class Chat {
  #conversation = Conversation.load(tabStorage);
  #list = document.getElementById('messages');
  #scroller = document.getElementById('scroller');
  #input = document.getElementById('input');
  #send = document.getElementById('send');
  #toEnd = document.getElementById('to-end');
  #status = document.getElementById('status');
  #running = null;  // AbortController
  #follows = true;  // the reader is at the end and wants to stay there
  #savedAt = 0;
  #leftAt = -Infinity;
  #onUnauthorized;

  /** @param {(words: string) => void} onUnauthorized the server wants a key */
  constructor(onUnauthorized) {
    this.#onUnauthorized = onUnauthorized;
    for (const message of this.#conversation.messages) {
      if (message.role === 'assistant') message.end ??= 'stopped';  // a reload cut it
    }
    this.#showAll();
    this.#input.addEventListener('input', () => this.#fit());
    this.#input.addEventListener('keydown', (event) => {
      if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      if (this.#running === null) this.#submit();
    });
    this.#send.addEventListener('click', () => (this.#running === null ? this.#submit() : this.stop()));
    this.#toEnd.addEventListener('click', () => this.#scrollToEnd());
    this.#scroller.addEventListener('scroll', () => this.#noteScroll(), {passive: true});
    for (const button of document.querySelectorAll('#welcome button')) {
      button.addEventListener('click', () => {
        this.#input.value = button.textContent;
        this.#submit();
      });
    }
    document.addEventListener('keydown', (event) => {
      if (event.key === 'Escape' && this.#running !== null && !document.querySelector('dialog[open]')) this.stop();
    });
    window.addEventListener('beforeunload', () => (this.#leftAt = performance.now()));
    window.addEventListener('pagehide', () => {
      if (this.#running !== null) this.#conversation.save(tabStorage);
    });
  }

  focus() {
    this.#input.focus();
  }

  /** Ends the answer that is under way; the server hears of it by the connection's end. */
  stop() {
    this.#running?.abort();
  }

  startAnew() {
    this.stop();
    this.#conversation = new Conversation();
    this.#conversation.save(tabStorage);
    this.#showAll();
    this.focus();
  }

  // --- what the reader does ---

  #submit() {
    const text = this.#input.value.trim();
    if (text === '') return;
    this.#input.value = '';
    this.#fit();
    this.#ask(text);
  }

  #ask(text) {
    this.#add({role: 'user', content: text});
    for (const form of this.#list.querySelectorAll('.result')) form.remove();  // no call waits any more
    this.#answer();
  }

  #edit(message, text) {
    this.stop();
    this.#conversation.cutAt(message);
    this.#showAll();
    this.#ask(text);
  }

  #regenerate(message) {
    this.stop();
    this.#conversation.cutAt(message);
    this.#showAll();
    this.#answer();
  }

  #answerCall(call, text) {
    this.#add({role: 'tool', callId: call.id, content: text});
    if (this.#conversation.openCalls().length === 0) this.#answer();
  }

  // --- the answer ---

  async #answer() {
    const conversation = this.#conversation;
    const message = {role: 'assistant', content: ''};
    const view = this.#add(message);
    const running = (this.#running = new AbortController());
    this.#showRunning();
    view.waitFor(null);
    this.#scrollToEnd();
    try {
      // Whoever writes faster than the page has met the server means the model that it would offer.
      settings.model ||= (await getJson('/v1/models')).data[0].id;
      const body = conversation.request(settings);
      for await (const chunk of streamChat(body, running.signal)) {
        if (chunk.prompt_progress) view.waitFor(chunk.prompt_progress);
        view.add(addChunk(message, chunk));
        this.#saveNowAndThen(conversation);
      }
    } catch (error) {
      this.#fail(error, message, running.signal);
    }
    view.finish();
    if (this.#conversation === conversation) conversation.save(tabStorage);
    if (this.#running !== running) return;  // another answer has begun
    this.#running = null;
    this.#showRunning();
    this.#status.textContent = message.end === 'error' ? 'The answer failed.' : 'The answer is complete.';
  }

  #fail(error, message, signal) {
    const isWanted = signal.aborted || performance.now() < this.#leftAt + LEAVE_MS;
    message.end = isWanted ? 'stopped' : 'error';
    if (isWanted) return;
    const isForReader = error instanceof ApiError || error instanceof SettingsError;
    message.error = isForReader ? error.message : `The page failed: ${error.message}`;
    if (error.status === 401) this.#onUnauthorized(error.message);
  }

  #saveNowAndThen(conversation) {
    if (this.#conversation !== conversation || performance.now() < this.#savedAt + SAVE_MS) return;
    this.#savedAt = performance.now();
    conversation.save(tabStorage);
  }

  // --- what is shown ---

  #add(message) {
    this.#conversation.messages.push(message);
    this.#conversation.save(tabStorage);
    const view = this.#viewOf(message, true);
    this.#list.append(view.node);
    this.#showWelcome();
    return view;
  }

  #viewOf(message, isNew) {
    if (message.role === 'user') return new UserView(message, {edit: (text) => this.#edit(message, text)});
    if (message.role === 'tool') return new ToolView(message);
    const actions = {
      regenerate: () => this.#regenerate(message),
      isOpen: (call) => this.#conversation.openCalls().includes(call),
      answerCall: (call, text) => this.#answerCall(call, text),
    };
    const follow = () => this.#follow();
    return isNew ? new AssistantView(message, actions, follow) : AssistantView.complete(message, actions, follow);
  }

  #showAll() {
    this.#list.replaceChildren(...this.#conversation.messages.map((message) => this.#viewOf(message, false).node));
    this.#showWelcome();
    this.#scrollToEnd();
  }

  #showWelcome() {
    document.getElementById('welcome').hidden = this.#conversation.messages.length > 0;
  }

  #showRunning() {
    const isRunning = this.#running !== null;
    this.#send.classList.toggle('stop', isRunning);
    this.#send.setAttribute('aria-label', isRunning ? 'Stop' : 'Send');
    this.#send.title = isRunning ? 'Stop (Esc)' : 'Send (Enter)';
    if (isRunning) this.#status.textContent = 'The answer begins.';
  }

  #fit() {
    this.#input.style.height = 'auto';
    this.#input.style.height = `${this.#input.scrollHeight}px`;
  }

  #noteScroll() {
    const {scrollTop, scrollHeight, clientHeight} = this.#scroller;
    this.#follows = scrollHeight - scrollTop - clientHeight < END_PIXELS;
    this.#toEnd.hidden = this.#follows;
  }

  #follow() {
    if (this.#follows) this.#scroller.scrollTop = this.#scroller.scrollHeight;
  }

  #scrollToEnd() {
    this.#follows = true;
    this.#toEnd.hidden = true;
    this.#follow();
  }
}
