// Asks the service what is new, every second: the newest inspections of the station, and now and then how it is.
import { api, sleep } from "./api.js";
import { $ } from "./dom.js";
import { state, update } from "./store.js";

export const STRIP = 20;  // inspections at hand
const MANY = 500;         // of one answer
const PATIENCE = 5;       // seconds: a live view must not wait longer before it says so
const STATUS_EVERY = 4;   // beats

let resume = () => {};
let statusDue = 0;

/** The next beat comes at once, and asks for everything. */
export function wake() {
  statusDue = 0;
  resume();
}

export async function loadStatus() { update({ status: await api("v1/status", { patience: PATIENCE }) }); }
export async function loadTasks() { update({ tasks: (await api("v1/tasks")).tasks }); }
export async function loadStations() { update({ stations: (await api("v1/stations", { patience: PATIENCE })).stations }); }

export const ofStation = (query) => (state.station ? `${query}&station=${encodeURIComponent(state.station)}` : query);

/** New inspections. `anew`: the service may have been away, or be another, so all are asked for. Of more than come in
 * one answer, those to be alarmed of are asked for by themselves. */
async function poll(anew) {
  const first = state.recent == null;
  const known = state.recent?.[0]?.id ?? 0;
  const ask = async (query) => (await api(ofStation(`v1/inspections?${query}`), { patience: PATIENCE })).inspections;
  const list = await ask(first ? `limit=${STRIP}` : anew ? `limit=${MANY}` : `limit=${MANY}&after=${known}`);
  const fresh = first ? [] : list.filter(({ id }) => id > known);
  if (fresh.length === MANY) {
    const more = [...await ask(`limit=${MANY}&after=${known}&verdict=defect`), ...await ask(`limit=${MANY}&after=${known}&verdict=unknown`)];
    fresh.push(...more.filter(({ id }) => id < list.at(-1).id));
  }
  const heard = performance.now();
  if (!first && !anew && !list.length) return update({ heard });
  update({ recent: first || anew ? list.slice(0, STRIP) : [...list, ...state.recent].slice(0, STRIP), fresh, heard });
  if (fresh.length) await loadStations();
}

async function beat(anew) {
  if (statusDue-- <= 0) {
    statusDue = STATUS_EVERY;
    const before = state.status;
    await loadStatus();
    anew ||= state.status.uptime_seconds < (before?.uptime_seconds ?? 0);
    if (anew || before?.tasks_mark !== state.status.tasks_mark) await loadTasks();
    await loadStations();
  }
  await poll(anew);
}

export async function heartbeat() {
  let failures = 0;
  for (;;) {
    let pause = document.hidden ? 5 : 1;
    if (!$("sign-in").open) {
      try {
        await beat(failures > 0);
        failures = 0;
        if (state.error) update({ error: null });
      } catch (error) {
        if (error.status !== 401) {
          pause = Math.max(error.retryAfter ?? 0, Math.min(15, 2 ** failures++));
          error.seconds = pause;
          update({ error });
          statusDue = 0;
        }
      }
    }
    await Promise.race([sleep(pause * 1000), new Promise((done) => { resume = done; })]);
  }
}

/** An inspection has changed: so do all copies of it here. */
export function remember(answer) {
  for (const one of [...(state.recent ?? []), state.beside]) if (one && one.id === answer.id && answer.id != null) Object.assign(one, answer);
  update({ beside: state.beside });
}
