// The page: which view is open, what the server is, how it looks.

import {getJson, readiness} from './api.js';
import {Chat} from './chat.js';
import {Engine} from './engine.js';
import {amount, count, seconds} from './format.js';
import {SettingsDialog, settings} from './settings.js';

const RETRY_MS = 1500;
const THEMES = ['auto', 'light', 'dark'];

const byId = (id) => document.getElementById(id);

const dialog = new SettingsDialog(() => meetServer());
const chat = new Chat((words) => dialog.open(words));
const engine = new Engine();

function showView() {
  const name = location.hash === '#engine' ? 'engine' : 'chat';
  for (const view of ['chat', 'engine']) {
    byId(view).hidden = view !== name;
    if (view === name) byId(`to-${view}`).setAttribute('aria-current', 'page');
    else byId(`to-${view}`).removeAttribute('aria-current');
  }
  byId('new').hidden = name !== 'chat';
  name === 'engine' ? engine.open() : engine.close();
  if (name === 'chat') chat.focus();
}

function showTheme() {
  const theme = document.documentElement.dataset.theme;
  byId('theme').title = `Colours: ${theme}`;
  byId('theme').setAttribute('aria-label', `Colours: ${theme}`);
}

function nextTheme() {
  const root = document.documentElement;
  root.dataset.theme = THEMES[(THEMES.indexOf(root.dataset.theme) + 1) % THEMES.length];
  try {
    localStorage.setItem('sluice.theme', root.dataset.theme);
  } catch {
    // Storage is forbidden: it holds until the page goes.
  }
  showTheme();
}

function notice(text) {
  byId('notice').textContent = text;
  byId('notice').hidden = text === '';
}

let retry = 0;

// Says what the server is, or why it takes no requests, and asks again while it does not.
async function meetServer() {
  clearTimeout(retry);
  try {
    const state = await readiness();
    if (!state.ready) {
      notice(whyNotReady(state));
      retry = setTimeout(meetServer, RETRY_MS);
      return;
    }
    const models = (await getJson('/v1/models')).data;
    dialog.offerModels(models.map((model) => model.id));
    const model = models.find((one) => one.id === settings.model) ?? models[0];
    byId('model').textContent = model.id;
    byId('model').title = `context ${count(model.context_length)} tokens`;
    byId('engine-model').textContent = model.id;
    byId('engine-context').textContent = `${count(model.context_length)} tokens of context`;
    byId('version').textContent = `sluice ${(await getJson('/version')).version}`;
    notice('');
  } catch (error) {
    if (error.status === 401) {
      notice('This server wants a key: it belongs into the settings.');
      dialog.open(error.message);
      return;
    }
    notice(error.status ? error.message : 'The server does not answer. Is it still running?');
    retry = setTimeout(meetServer, RETRY_MS);
  }
}

function whyNotReady({reason, loading}) {
  if (!loading) return `The server takes no requests now: ${reason}.`;
  const left = loading.eta_s === null ? '' : `, about ${seconds(loading.eta_s)} left`;
  return `The model is on its way into memory: ${amount(loading.percent)} %${left}.`;
}

byId('theme').addEventListener('click', nextTheme);
byId('open-settings').addEventListener('click', () => dialog.open());
byId('new').addEventListener('click', () => chat.startAnew());
window.addEventListener('hashchange', showView);
showTheme();
showView();
meetServer();
