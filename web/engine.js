// The engine as it is now: /metrics, once a second while this view is open.

import {getText} from './api.js';
import {Sparkline} from './chart.js';
import {el} from './dom.js';
import {amount, bytes, count, percent, seconds} from './format.js';
import {Interval, parseMetrics, total} from './prometheus.js';

const PERIOD_MS = 1000;
// Rates are over this many looks, so that a number can be read before it changes.
const N_LOOKS = 5;

const TILES = [
  {name: 'Running', help: 'requests that hold an engine slot', value: ({now}) => total(now, 'requests_running'), text: count},
  {name: 'Waiting', help: 'accepted and not yet started', value: ({now}) => total(now, 'requests_waiting'), text: count},
  {name: 'Generated', unit: 'tokens/s', value: ({lately}) => lately?.perSecond('generated_tokens_total'), text: amount},
  {name: 'Step time', help: 'mean of the last seconds', value: ({lately}) => lately?.mean('step_seconds'), text: seconds},
  {name: 'Steps', unit: 'per second', value: ({lately}) => lately?.perSecond('step_seconds_count'), text: amount},
  {name: 'Prompt computed', unit: 'tokens/s', value: ({lately}) => lately?.perSecond('prefix_cache_misses_total'), text: amount},
  {name: 'Prefix hit rate', help: 'of all prompt tokens since the start', value: ({now}) => total(now, 'prefix_cache_hits_total') / total(now, 'prefix_cache_queries_total'), text: percent},
  {name: 'Memory', help: 'of the process, mapped weights included', value: ({now}) => total(now, 'resident_bytes'), text: bytes},
];

const FACTS = [
  ['Requests answered', (now) => count(total(now, 'requests_finished_total'))],
  ['of them cancelled', (now) => count(total(now, 'requests_finished_total', {outcome: 'cancelled'}))],
  ['of them failed or refused', (now) => count(total(now, 'requests_finished_total', {outcome: 'error'}) + total(now, 'requests_finished_total', {outcome: 'refused'}))],
  ['Time to first token, mean', (now) => seconds(total(now, 'ttft_seconds_sum') / total(now, 'ttft_seconds_count'))],
  ['Time in the queue, mean', (now) => seconds(total(now, 'queue_seconds_sum') / total(now, 'queue_seconds_count'))],
  ['Times memory ran out and a request gave way', (now) => count(total(now, 'preemptions_total'))],
  ['Open connections', (now) => count(total(now, 'connections_open'))],
];

export class Engine {
  #looks = [];
  #timer = 0;
  #tiles;
  #facts;
  #note = el('p', {class: 'note', role: 'status'});
  #blocks = {};

  constructor() {
    this.#tiles = TILES.map((tile) => this.#makeTile(tile));
    this.#facts = FACTS.map(([name, value]) => ({value, node: el('dd', {}, '–'), name: el('dt', {}, name)}));
    document.getElementById('engine-body').append(
      this.#note,
      el('div', {class: 'tiles'}, ...this.#tiles.map((tile) => tile.node)),
      this.#makeBlocks(),
      el('dl', {class: 'facts-list'}, ...this.#facts.flatMap((fact) => [fact.name, fact.node])),
    );
  }

  open() {
    if (this.#timer === 0) this.#look();
  }

  close() {
    clearTimeout(this.#timer);
    this.#timer = 0;
  }

  async #look() {
    this.#timer = setTimeout(() => this.#look(), PERIOD_MS);
    if (document.hidden) return;
    try {
      const metrics = parseMetrics(await getText('/metrics'));
      this.#looks.push({at: performance.now() / 1000, metrics});
      if (this.#looks.length > N_LOOKS) this.#looks.shift();
      this.#note.textContent = '';
      this.#show();
    } catch (error) {
      this.#looks = [];
      this.#note.textContent = error.status === 401 ? `${error.message} The key belongs into the settings.` : error.message;
    }
  }

  #show() {
    const now = this.#looks.at(-1).metrics;
    const lately = this.#looks.length > 1 ? new Interval(this.#looks[0], this.#looks.at(-1)) : null;
    for (const tile of this.#tiles) {
      const value = tile.value({now, lately}) ?? NaN;
      tile.number.textContent = Number.isFinite(value) ? tile.text(value) : '–';
      tile.chart.push(value);
    }
    for (const fact of this.#facts) fact.node.textContent = fact.value(now);
    this.#showBlocks(now);
  }

  #makeTile(tile) {
    const number = el('span', {class: 'number'}, '–');
    const chart = new Sparkline(`${tile.name} over the last two minutes`);
    const value = el('div', {class: 'value'}, number, el('span', {class: 'unit'}, tile.unit ?? ''));
    const node = el('section', {class: 'tile', 'data-name': tile.name, title: tile.help}, el('h3', {}, tile.name), value, chart.node);
    return {...tile, number, chart, node};
  }

  #makeBlocks() {
    const bar = el('div', {class: 'bar', 'aria-hidden': 'true'});
    const legend = el('div', {class: 'legend'});
    for (const [key, label] of [['in_use', 'in use'], ['cached', 'cached'], ['free', 'free']]) {
      const part = el('div', {class: key});
      const number = el('b', {}, '–');
      bar.append(part);
      legend.append(el('span', {class: key, 'data-name': `blocks ${label}`}, number, ` ${label}`));
      this.#blocks[key] = {part, number};
    }
    return el('section', {class: 'blocks'}, el('h3', {}, 'KV blocks'), bar, legend);
  }

  #showBlocks(now) {
    for (const [key, {part, number}] of Object.entries(this.#blocks)) {
      const n = total(now, `kv_blocks_${key}`);
      part.style.flexGrow = n;
      number.textContent = count(n);
    }
  }
}
