// The storage that ends with the tab. Where it is forbidden (a browser that takes no site data), one
// that ends with the page.

export const tabStorage = opened();

function opened() {
  try {
    return window.sessionStorage ?? standIn();
  } catch {
    return standIn();
  }
}

function standIn() {
  const kept = new Map();
  return {
    getItem: (name) => kept.get(name) ?? null,
    setItem: (name, text) => kept.set(name, text),
    removeItem: (name) => kept.delete(name),
  };
}
