// What the browser remembers. Storage can be forbidden; the page then forgets, and works.

export const keep = {
  get(name, otherwise) { try { return localStorage.getItem(name) ?? otherwise; } catch { return otherwise; } },
  set(name, value) { try { localStorage.setItem(name, value); } catch { /* forgotten */ } },
};

/** In this tab only. */
export const token = {
  get() { try { return sessionStorage.getItem("token") ?? ""; } catch { return ""; } },
  set(value) { try { sessionStorage.setItem("token", value); } catch { /* forgotten */ } },
};
