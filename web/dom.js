// Elements without markup: everything that stands on the page is made here, from names and texts.
// A text becomes a text node and nothing else, whoever wrote it.

/**
 * el('p', {class: 'note', onclick: f}, 'text', child)
 *
 * Attributes that are functions are listeners; true and false are presence; null is absence.
 */
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) set(node, name, value);
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

/** The same for SVG. */
export function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) set(node, name, value);
  node.append(...children);
  return node;
}

function set(node, name, value) {
  if (typeof value === 'function') node.addEventListener(name.replace(/^on/, ''), value);
  else if (value === true) node.setAttribute(name, '');
  else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
}

/** The nodes of a tree that markdown.js made. Only what its table of tags names is ever made. */
export function fromTree(tree) {
  if (typeof tree === 'string') return document.createTextNode(tree);
  if (tree.tag === 'code-block') return codeBlock(tree.language, tree.text);
  const node = document.createElement(tree.tag);
  for (const [name, value] of Object.entries(tree.attributes ?? {})) node.setAttribute(name, value);
  for (const child of tree.children ?? []) node.append(fromTree(child));
  return tree.tag === 'table' ? el('div', {class: 'table', tabindex: '0'}, node) : node;
}

/** Code with its language and a button that copies it. */
export function codeBlock(language, text) {
  const code = el('code');
  growCode(code, text);
  const head = el('div', {class: 'code-head'}, el('span', {}, language), copyButton(() => code.textContent));
  return el('div', {class: 'code'}, head, el('pre', {tabindex: '0'}, code));
}

// Long code is laid out piece by piece, as far as it is seen: a piece of so many short lines takes a
// tenth of a second.
const PIECE_CHARS = 2 * 1024;

/** Adds text to the code of a block. */
export function growCode(code, text) {
  for (let from = 0; from < text.length; ) {
    const last = code.lastElementChild;
    const isFull = last === null || (last.textContent.length >= PIECE_CHARS && last.textContent.endsWith('\n'));
    const piece = isFull ? code.appendChild(el('span')) : last;
    const end = text.indexOf('\n', from + PIECE_CHARS) + 1 || text.length;
    piece.append(text.slice(from, end));
    from = end;
  }
}

/** A button that copies what `text` answers. */
export function copyButton(text) {
  const button = el('button', {type: 'button', class: 'quiet', onclick: () => copy(text(), button)}, 'Copy');
  return button;
}

async function copy(text, button) {
  let done = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    done = copyBySelection(text);  // no permission, or a page over plain HTTP
  }
  button.textContent = done ? 'Copied' : 'Cannot copy';
  setTimeout(() => (button.textContent = 'Copy'), 1500);
}

function copyBySelection(text) {
  const area = el('textarea', {class: 'offscreen', 'aria-hidden': 'true'});
  area.value = text;
  const before = document.activeElement;
  document.body.append(area);
  area.select();
  const done = document.execCommand('copy');
  area.remove();
  before?.focus?.();
  return done;
}
