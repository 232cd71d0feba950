// Numbers and times as people read them. Pure.

/** 1234567 -> "1,234,567". */
export function count(n) {
  return Math.round(n).toLocaleString('en-US');
}

/** Three digits that matter: 0.0123, 4.56, 78.9, 1,234. */
export function amount(x) {
  if (!Number.isFinite(x)) return '–';
  const size = Math.abs(x);
  if (size >= 100) return count(x);
  if (size >= 10) return x.toFixed(1);
  return size >= 1 || size === 0 ? x.toFixed(size === 0 ? 0 : 2) : x.toPrecision(2);
}

/** Seconds: "840 µs", "12.3 ms", "4.56 s", "3 min 20 s". */
export function seconds(s) {
  if (!Number.isFinite(s)) return '–';
  if (s < 1e-3) return `${amount(s * 1e6)} µs`;
  if (s < 1) return `${amount(s * 1e3)} ms`;
  if (s < 60) return `${amount(s)} s`;
  return `${Math.floor(s / 60)} min ${Math.round(s % 60)} s`;
}

/** Bytes in binary units: "1.23 GiB". */
export function bytes(n) {
  if (!Number.isFinite(n)) return '–';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let at = 0;
  while (n >= 1024 && at < units.length - 1) {
    n /= 1024;
    ++at;
  }
  return `${at === 0 ? n : amount(n)} ${units[at]}`;
}

/** A part of one: 0.123 -> "12.3 %". */
export function percent(part) {
  if (!Number.isFinite(part)) return '–';
  return `${(part * 100).toFixed(part > 0 && part < 0.1 ? 1 : 0)} %`;
}
