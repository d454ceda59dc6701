// The admin API as the page uses it: JSON answers, and the event stream by fetch, since
// EventSource cannot send the token.

const TOKEN_KEY = "deuz-sidecar-token";
// The server's heartbeat comes every 15 s; two missed and the stream counts as dead.
const SILENCE_MS = 40_000;
const RETRY_FIRST_MS = 1_000;
const RETRY_LAST_MS = 15_000;

export class Unauthorized extends Error {}

/** Take a token out of the address, so that it is neither shown nor kept in a bookmark. */
export function takeTokenFromAddress() {
  const given = new URLSearchParams(location.hash.replace(/^#\??/, "")).get("token");
  if (given === null) return;
  keepToken(given);
  history.replaceState(null, "", location.pathname + location.search);
}

export function keepToken(token) {
  sessionStorage.setItem(TOKEN_KEY, token);
}

export async function read(path) {
  const response = await send(path);
  return response.json();
}

async function send(path, options = {}) {
  const headers = { ...options.headers };
  const token = sessionStorage.getItem(TOKEN_KEY);
  if (token !== null) headers.Authorization = `Bearer ${token}`;
  const response = await fetch(path, { ...options, headers, cache: "no-store" });
  if (response.status === 401) throw new Unauthorized();
  if (!response.ok) throw new Error(await explain(response));
  return response;
}

async function explain(response) {
  try {
    return (await response.json()).error.message;
  } catch {
    return `status ${response.status}`;
  }
}

/**
 * Follow the events behind a place for as long as the page lives.
 *
 * `listener` has `event(name, content)`, `state(word, retryMs)` and `unauthorized()`.
 * A broken stream is resumed behind the last event that came.
 */
export async function follow(place, listener) {
  let last = place;
  let wait = RETRY_FIRST_MS;
  for (;;) {
    try {
      await readStream(last, (event) => {
        wait = RETRY_FIRST_MS;
        last = event.id ?? last;
        listener.state("live");
        if (event.name) listener.event(event.name, event.content);
      });
    } catch (fault) {
      if (fault instanceof Unauthorized) return listener.unauthorized();
    }
    listener.state("disconnected", wait);
    await pause(wait);
    wait = Math.min(wait * 2, RETRY_LAST_MS);
  }
}

async function readStream(place, listener) {
  const aborter = new AbortController();
  let timer;
  const stayAlive = () => {
    clearTimeout(timer);
    timer = setTimeout(() => aborter.abort(), SILENCE_MS);
  };
  stayAlive();
  try {
    const response = await send("/api/v1/events", { headers: { "Last-Event-ID": place }, signal: aborter.signal });
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      stayAlive();
      const frames = (rest + value).split("\n\n");
      rest = frames.pop();
      frames.map(parseFrame).forEach(listener);
    }
  } finally {
    clearTimeout(timer);
    aborter.abort();
  }
}

function parseFrame(frame) {
  const event = {};
  for (const line of frame.split("\n")) {
    const colon = line.indexOf(":");
    const field = line.slice(0, colon);
    const value = line.slice(colon + 1).trimStart();
    if (field === "id") event.id = value;
    if (field === "event") event.name = value;
    if (field === "data") event.content = JSON.parse(value);
  }
  return event;
}

function pause(ms) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    // A laptop that wakes up, or a network that is back, need not wait.
    addEventListener("online", () => { clearTimeout(timer); resolve(); }, { once: true });
  });
}
