// The text of /metrics as numbers, and what changed between two looks. Pure.

const PREFIX = 'sluice_';
const LINE = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{([^}]*)\})? (\S+)$/;

/**
 * @param {string} text Prometheus text format 0.0.4
 * @returns {Map<string, {labels: Object<string, string>, value: number}[]>} by name without prefix
 */
export function parseMetrics(text) {
  const metrics = new Map();
  for (const line of text.split('\n')) {
    const found = LINE.exec(line);
    if (found === null || !found[1].startsWith(PREFIX)) continue;
    const name = found[1].slice(PREFIX.length);
    const labels = {};
    for (const [, key, value] of (found[2] ?? '').matchAll(/(\w+)="([^"]*)"/g)) labels[key] = value;
    if (!metrics.has(name)) metrics.set(name, []);
    metrics.get(name).push({labels, value: Number(found[3])});
  }
  return metrics;
}

/** The sum over the series of a metric that have these labels; NaN if there is none of that name. */
export function total(metrics, name, labels = {}) {
  const series = metrics.get(name);
  if (series === undefined) return NaN;
  const fits = (one) => Object.entries(labels).every(([key, value]) => one.labels[key] === value);
  return series.filter(fits).reduce((sum, one) => sum + one.value, 0);
}

/** What the engine did between two looks: {at: seconds, metrics}. */
export class Interval {
  constructor(before, after) {
    this.before = before.metrics;
    this.after = after.metrics;
    this.seconds = after.at - before.at;
  }

  grown(name, labels) {
    return total(this.after, name, labels) - total(this.before, name, labels);
  }

  perSecond(name, labels) {
    return this.seconds > 0 ? this.grown(name, labels) / this.seconds : NaN;
  }

  /** The mean of what a histogram saw; NaN if it saw nothing. */
  mean(name) {
    const n = this.grown(`${name}_count`);
    return n > 0 ? this.grown(`${name}_sum`) / n : NaN;
  }
}
