// What the page knows, in one place. Whoever shows something of it watches it, and is told when it changes.

export const state = {
  view: "live",
  station: (new URLSearchParams(location.search).get("station") ?? "").trim().normalize("NFC"),
  status: null,       // of the service; null: not asked yet
  tasks: [],
  stations: [],
  recent: null,       // the station's latest inspections, newest first; null: not asked yet
  fresh: [],          // those that came with the last answer, newest first
  beside: null,       // the older inspection that is looked at; null: none
  heard: -Infinity,   // when the service last answered, by performance.now()
  error: null,        // why it did not answer last time
};

const watchers = new Map();

/** Runs `action` whenever one of these (names of the state, with blanks between) is set. */
export function watch(names, action) {
  for (const name of names.split(" ")) watchers.set(name, [...(watchers.get(name) ?? []), action]);
}

export function update(changes) {
  Object.assign(state, changes);
  const due = new Set(Object.keys(changes).flatMap((name) => watchers.get(name) ?? []));
  for (const action of due) action();
}
