// A line of the last values in a box of fixed size, drawn as SVG.

import {svg} from './dom.js';

const N_POINTS = 120;
const WIDTH = 240;
const HEIGHT = 48;

export class Sparkline {
  #values = [];
  #line = svg('polyline', {class: 'line'});
  #area = svg('polygon', {class: 'area'});

  /** @param {string} label for those who do not see it */
  constructor(label) {
    this.node = svg(
      'svg',
      {viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': label},
      this.#area,
      this.#line,
    );
  }

  /** NaN: a gap of nothing, drawn as zero. */
  push(value) {
    this.#values.push(Number.isFinite(value) ? value : 0);
    if (this.#values.length > N_POINTS) this.#values.shift();
    const max = Math.max(...this.#values, 1e-12);
    const first = N_POINTS - this.#values.length;
    const points = this.#values.map((v, i) => {
      const x = ((first + i) / (N_POINTS - 1)) * WIDTH;
      return `${x.toFixed(1)},${(HEIGHT - 2 - (v / max) * (HEIGHT - 6)).toFixed(1)}`;
    });
    const left = ((first / (N_POINTS - 1)) * WIDTH).toFixed(1);
    this.#line.setAttribute('points', points.join(' '));
    this.#area.setAttribute('points', `${left},${HEIGHT} ${points.join(' ')} ${WIDTH},${HEIGHT}`);
  }
}
