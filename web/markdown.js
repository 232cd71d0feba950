// Markdown as a tree of plain objects: {tag, attributes, children} or a string. Pure.
//
// The lexer of marked says what is what; no HTML is made of it, here or anywhere. What a model
// wrote as HTML stays text. Tags and attributes come from this file alone.
//
// Everything is bounded: how deep a tree is, how much is lexed at once, and how long that may take.
// What is beyond a bound is shown as the text it is.

import {lexer} from './vendor/marked.js';

const MAX_DEPTH = 24;
// What is lexed at once. A block that is longer is lexed in a larger window only if it was fast in
// this one: some texts cost the square of their length.
const MIN_WINDOW_CHARS = 4 * 1024;
const MAX_WINDOW_CHARS = 64 * 1024;
const FAST_MS = 30;
const SLOW_MS = 100;
// Of one text, in windows that were not fast; then the rest of it is not lexed.
const MAX_SLOW_MS = 500;
const MAX_URL_CHARS = 2048;
const MAX_COLUMNS = 64;
// Of one take: what is shown at once must not take longer than a reader waits.
const MAX_BLOCKS = 200;
const LAST_CHARACTER = 1_114_111;
const [FIRST_SURROGATE, LAST_SURROGATE] = [55_296, 57_343];

const ENTITIES = {amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: '\u00a0', copy: '©', hellip: '…', mdash: '—', ndash: '–'};

/**
 * A text that grows, as blocks. What is behind the last block does not change any more, so a
 * reader shows each block once and only the last one again and again.
 */
export class MarkdownStream {
  #text = '';
  #from = 0;
  #slowMs = 0;

  push(piece) {
    const text = this.#text.endsWith('\r') ? '\r' + piece : piece;
    if (text !== piece) this.#text = this.#text.slice(0, -1);
    this.#text += text.replace(/\r\n|\r(?!$)/g, '\n');
  }

  /**
   * @param {boolean} isLast nothing will be pushed any more
   * @returns {{sealed: object[], open: object|null, more: boolean}} trees of the blocks that are
   *     complete since the last call, and of the one that is not; `more`: call again, there was too
   *     much for one call
   */
  take(isLast) {
    if (isLast) this.#text = this.#text.replace(/\r$/, '\n');
    const sealed = [];
    for (;;) {
      const step = this.#step(isLast);
      sealed.push(...step.sealed);
      this.#from += step.n;
      const isDone = step.n === 0 || step.open !== null || this.#from >= this.#text.length;
      if (isDone) return {sealed, open: step.open, more: false};
      if (sealed.length >= MAX_BLOCKS) return {sealed, open: null, more: true};
    }
  }

  #step(isLast) {
    if (this.#from >= this.#text.length) return {sealed: [], n: 0, open: null};
    const fence = fencedCode(this.#text, this.#from);
    if (fence !== null) {
      if (fence.closed) return {sealed: [fence.tree], n: fence.n, open: null};
      const n_left = this.#text.length - this.#from;
      return isLast ? {sealed: [fence.tree], n: n_left, open: null} : {sealed: [], n: 0, open: fence.tree};
    }
    return this.#lexedStep(isLast);
  }

  #lexedStep(isLast) {
    for (let size = MIN_WINDOW_CHARS; ; size *= 2) {
      const window = windowOf(this.#text, this.#from, size);
      const isWhole = this.#from + window.length === this.#text.length;
      const {tokens, ms} = this.#lex(window);
      if (tokens === null || ms > SLOW_MS) return plainStep(window, isWhole && !isLast);
      const fence = tokens.findIndex((token, i) => i > 0 && token.type === 'code' && token.codeBlockStyle !== 'indented');
      if (isWhole && isLast && fence < 0) return {sealed: blocksOf(tokens), n: window.length, open: null};
      const last = fence > 0 ? fence : tokens.findLastIndex((token) => token.type !== 'space');
      const done = tokens.slice(0, Math.max(last, 0));
      const n = done.reduce((sum, token) => sum + token.raw.length, 0);
      if (fence > 0) return {sealed: blocksOf(done), n, open: null};  // fencedCode takes it
      if (isWhole) return {sealed: blocksOf(done), n, open: last < 0 ? null : wrapped(blocksOf(tokens.slice(last)))};
      if (n > 0) return {sealed: blocksOf(done), n, open: null};
      if (size >= MAX_WINDOW_CHARS || ms > FAST_MS) return plainStep(window, false);
    }
  }

  #lex(window) {
    if (this.#slowMs > MAX_SLOW_MS) return {tokens: null, ms: 0};
    const begin = performance.now();
    const tokens = lexed(window);
    const ms = performance.now() - begin;
    if (ms > FAST_MS) this.#slowMs += ms;
    return {tokens, ms};
  }
}

/** The whole of a text at once. */
export function markdownTrees(text) {
  const stream = new MarkdownStream();
  stream.push(text);
  const trees = [];
  for (let more = true; more; ) {
    const taken = stream.take(true);
    trees.push(...taken.sealed);
    more = taken.more;
  }
  return trees;
}

function wrapped(trees) {
  return trees.length === 1 ? trees[0] : {tag: 'div', children: trees};
}

function plainStep(window, isOpen) {
  const tree = {tag: 'p', attributes: {class: 'plain'}, children: [window]};
  return isOpen ? {sealed: [], n: 0, open: tree} : {sealed: [tree], n: window.length, open: null};
}

// From `from` at most so many characters, up to the end of a line if there is one.
function windowOf(text, from, size) {
  if (text.length - from <= size) return text.slice(from);
  const end = text.lastIndexOf('\n', from + size - 1) + 1;
  if (end > from) return text.slice(from, end);
  const cut = from + size;
  const splitsPair = /[\ud800-\udbff]/.test(text[cut - 1]);
  return text.slice(from, splitsPair ? cut - 1 : cut);
}

// Tokens whose texts together are `window`; null if the lexer cannot do it.
function lexed(window) {
  try {
    const tokens = lexer(window, {gfm: true, breaks: true});
    const n = tokens.reduce((sum, token) => sum + token.raw.length, 0);
    return n === window.length ? tokens : null;
  } catch {
    return null;  // too deep for its recursion
  }
}

// Code fences may be long, so they are found without the lexer: in one pass.
function fencedCode(text, from) {
  const lineEnd = text.indexOf('\n', from);
  const line = text.slice(from, lineEnd < 0 ? Math.min(text.length, from + 512) : lineEnd);
  const opening = /^ {0,3}(`{3,}|~{3,})([^`]{0,200})$/.exec(line);
  if (opening === null) return null;
  const language = opening[2].trim().split(/\s/, 1)[0].slice(0, 32);
  const tree = (code) => ({tag: 'code-block', language, text: code});
  if (lineEnd < 0) return {tree: tree(''), closed: false, n: 0};
  const closing = new RegExp(`^ {0,3}${opening[1][0]}{${opening[1].length},}[ \\t]*$`);
  for (let at = lineEnd + 1; at < text.length; ) {
    const end = text.indexOf('\n', at);
    const next = end < 0 ? text.length : end;
    if (next - at <= 256 && closing.test(text.slice(at, next))) {
      const code = text.slice(lineEnd + 1, Math.max(at - 1, lineEnd + 1));
      return {tree: tree(code), closed: true, n: Math.min(next + 1, text.length) - from};
    }
    at = next + 1;
  }
  return {tree: tree(text.slice(lineEnd + 1)), closed: false, n: 0};
}

// --- tokens to trees ---

function blocksOf(tokens, depth = 0) {
  if (depth > MAX_DEPTH) return tokens.map((token) => token.raw);
  return tokens.flatMap((token) => blockOf(token, depth));
}

function blockOf(token, depth) {
  switch (token.type) {
    case 'space':
    case 'def':
      return [];
    case 'heading':
      return [{tag: `h${Math.min(token.depth + 1, 6)}`, children: inlines(token.tokens, depth)}];
    case 'paragraph':
      return [{tag: 'p', children: inlines(token.tokens, depth)}];
    case 'text':
      return token.tokens ? inlines(token.tokens, depth) : [decoded(token.text)];
    case 'code':
      return [{tag: 'code-block', language: (token.lang ?? '').split(/\s/, 1)[0].slice(0, 32), text: token.text}];
    case 'blockquote':
      return [{tag: 'blockquote', children: blocksOf(token.tokens, depth + 1)}];
    case 'hr':
      return [{tag: 'hr'}];
    case 'list':
      return [listOf(token, depth)];
    case 'table':
      return token.header.length > MAX_COLUMNS ? [plain(token)] : [tableOf(token, depth)];
    default:  // html, and what we do not know
      return [plain(token)];
  }
}

function plain(token) {
  return {tag: 'p', attributes: {class: 'plain'}, children: [token.raw]};
}

function listOf(token, depth) {
  const attributes = {};
  if (token.ordered && Number.isSafeInteger(token.start) && token.start !== 1) attributes.start = String(token.start);
  const children = token.items.map((item) => {
    const box = item.task ? [item.checked ? '☑ ' : '☐ '] : [];
    const content = item.tokens.filter((part) => part.type !== 'checkbox');
    return {tag: 'li', children: [...box, ...blocksOf(content, depth + 1)]};
  });
  return {tag: token.ordered ? 'ol' : 'ul', attributes, children};
}

function tableOf(token, depth) {
  const row = (tag) => (cells) => ({
    tag: 'tr',
    children: cells.map((cell, i) => ({
      tag,
      attributes: {class: ['left', 'center', 'right'].find((side) => side === token.align[i]) ?? 'left'},
      children: inlines(cell.tokens, depth),
    })),
  });
  return {
    tag: 'table',
    children: [
      {tag: 'thead', children: [row('th')(token.header)]},
      {tag: 'tbody', children: token.rows.map(row('td'))},
    ],
  };
}

function inlines(tokens, depth) {
  if (depth > MAX_DEPTH) return (tokens ?? []).map((token) => token.raw);
  return (tokens ?? []).flatMap((token) => inlineOf(token, depth + 1));
}

function inlineOf(token, depth) {
  switch (token.type) {
    case 'strong':
    case 'em':
    case 'del':
      return [{tag: token.type, children: inlines(token.tokens, depth)}];
    case 'codespan':
      return [{tag: 'code', children: [token.text]}];
    case 'br':
      return [{tag: 'br'}];
    case 'link':
      return linkOf(token.href, inlines(token.tokens, depth));
    case 'image':  // fetching it would tell its host who reads what
      return linkOf(token.href, [`🖼 ${token.text || token.href}`]);
    case 'escape':
      return [token.text];
    case 'text':
      return token.tokens ? inlines(token.tokens, depth) : [decoded(token.text)];
    default:
      return [token.raw];
  }
}

function linkOf(href, children) {
  const url = safeUrl(href);
  if (url === null) return children;
  return [{tag: 'a', attributes: {href: url, target: '_blank', rel: 'noopener noreferrer nofollow', title: url}, children}];
}

/** The address as the browser will understand it, if it leads to the web or to a mailbox; else null. */
export function safeUrl(href) {
  if (typeof href !== 'string' || href.length > MAX_URL_CHARS) return null;
  try {
    const url = new URL(href);  // without a base: what is relative would lead to this server
    return ['http:', 'https:', 'mailto:'].includes(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

/** Character references as characters; what is none stays as it is. */
export function decoded(text) {
  return text.replace(/&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|([a-z]{2,8}));/g, (whole, decimal, hex, name) => {
    if (name !== undefined) return Object.hasOwn(ENTITIES, name) ? ENTITIES[name] : whole;
    const code = parseInt(decimal ?? hex, decimal !== undefined ? 10 : 16);
    const isCharacter = code > 0 && code <= LAST_CHARACTER && !(code >= FIRST_SURROGATE && code <= LAST_SURROGATE);
    return isCharacter ? String.fromCodePoint(code) : '\ufffd';
  });
}
