// What the reader has chosen. Stays in this browser: the settings in localStorage, the key in
// sessionStorage alone, so it is gone with the tab.

import {wrongSettings} from './conversation.js';
import {tabStorage} from './storage.js';

const STORAGE_NAME = 'sluice.settings';
const KEY_NAME = 'sluice.key';

const DEFAULTS = {model: '', system: '', temperature: '', top_p: '', max_tokens: '', thinking: 'default', tools: ''};

export const settings = {...DEFAULTS, key: tabStorage.getItem(KEY_NAME) ?? '', ...stored()};

function stored() {
  try {
    const found = JSON.parse(localStorage.getItem(STORAGE_NAME) ?? '{}');
    return Object.fromEntries(Object.keys(DEFAULTS).filter((name) => typeof found?.[name] === 'string').map((name) => [name, found[name]]));
  } catch {
    return {};
  }
}

export function saveSettings() {
  const {key, ...rest} = settings;
  try {
    tabStorage.setItem(KEY_NAME, key);
    localStorage.setItem(STORAGE_NAME, JSON.stringify(rest));
  } catch {
    // Storage is full or forbidden: they hold until the page goes.
  }
}

const FIELDS = [...Object.keys(DEFAULTS), 'key'];

const field = (name) => document.getElementById(`set-${name}`);

/** The dialog. `onchange` is called when it has been closed with other values. */
export class SettingsDialog {
  #dialog = document.getElementById('settings');

  constructor(onchange) {
    this.#dialog.addEventListener('close', () => {
      const before = JSON.stringify(settings);
      const values = this.#values();
      // Esc closes whatever the fields hold: what cannot be sent is not taken over.
      for (const name of Object.keys(wrongSettings(values))) delete values[name];
      Object.assign(settings, values);
      saveSettings();
      if (JSON.stringify(settings) !== before) onchange();
    });
    document.getElementById('settings-close').addEventListener('click', () => this.#close());
    this.#dialog.addEventListener('input', () => this.#check());
    this.#dialog.addEventListener('click', (event) => {
      if (event.target === this.#dialog) this.#close();
    });
    // Enter in a line of text is the wish to be done.
    this.#dialog.addEventListener('keydown', (event) => {
      if (event.key === 'Enter' && event.target.tagName === 'INPUT') this.#close();
    });
  }

  /** @param {string} why said above the fields, if there is a reason besides the reader's wish */
  open(why = '') {
    for (const name of FIELDS) field(name).value = settings[name];
    document.getElementById('settings-why').textContent = why;
    this.#check();
    if (!this.#dialog.open) this.#dialog.showModal();
    if (why !== '') field('key').focus();
  }

  offerModels(names) {
    const select = field('model');
    select.replaceChildren(...names.map((name) => new Option(name, name)));
    if (!names.includes(settings.model)) settings.model = names[0] ?? '';
    select.value = settings.model;
  }

  #close() {
    if (this.#check()) this.#dialog.close();
  }

  #values() {
    return Object.fromEntries(FIELDS.map((name) => [name, field(name).value.trim()]));
  }

  // Says what is wrong; whether nothing is.
  #check() {
    const {tools = '', ...numbers} = wrongSettings(this.#values());
    const wrongNumbers = Object.values(numbers).join('. ');
    document.getElementById('tools-wrong').textContent = tools;
    document.getElementById('numbers-wrong').textContent = wrongNumbers;
    return tools === '' && wrongNumbers === '';
  }
}
