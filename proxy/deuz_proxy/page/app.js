// The live page: one snapshot, then the event stream behind it.

import { Unauthorized, follow, keepToken, read, takeTokenFromAddress } from "/page/api.js";
import { drawCommand, drawConversation, drawRequest, drawTotals, drawWorkers, make } from "/page/draw.js";
import { isLoss } from "/page/words.js";

// More cards than one reads back, few enough that a browser stays quick.
const REQUESTS_SHOWN = 200;
const CONVERSATIONS_SHOWN = 200;
// Several changes within this time are drawn at once; a busy sidecar sends hundreds a second.
const DRAW_MS = 100;

const at = (id) => document.getElementById(id);

const requests = new Map(); // newest first, by id
const cards = new Map(); // what is drawn of them, so that open details stay open
const conversations = new Map(); // used last first, by id
const entries = new Map();
let status = null;
let chosen = null;
let isDrawPlanned = false;

async function start() {
  takeTokenFromAddress();
  at("login").addEventListener("submit", submitToken);
  at("all").addEventListener("click", () => choose(null));
  at("losses-only").addEventListener("change", draw);
  await open();
}

async function open() {
  let place;
  try {
    place = await load();
  } catch (fault) {
    if (fault instanceof Unauthorized) return askForToken();
    showState("disconnected");
    setTimeout(open, 2_000);
    return;
  }
  at("login").hidden = true;
  showState("live");
  await follow(place, { event: take, state: showState, unauthorized: askForToken });
}

async function load() {
  const [listed, known, sums] = await Promise.all([
    read(`/api/v1/requests?limit=${REQUESTS_SHOWN}`),
    read("/api/v1/conversations"),
    read("/api/v1/status"),
  ]);
  requests.clear();
  for (const request of listed.requests) requests.set(request.id, request);
  conversations.clear();
  for (const conversation of known.conversations) conversations.set(conversation.id, conversation);
  status = sums;
  if (!requests.size) await showCommands();
  draw();
  return listed.last_event_id;
}

function take(name, content) {
  if (name === "request") takeRequest(content);
  if (name === "status") status = content;
  // Lost messages, or another process behind the address: what is shown has holes.
  if (name === "lost" || name === "reset") load().catch(() => showState("disconnected"));
  planDraw();
}

function takeRequest({ request, conversation }) {
  putFirst(requests, request.id, request, REQUESTS_SHOWN);
  if (conversation) putFirst(conversations, conversation.id, conversation, CONVERSATIONS_SHOWN);
}

function putFirst(map, id, value, bound) {
  map.delete(id);
  const rest = [...map].slice(0, bound - 1);
  map.clear();
  map.set(id, value);
  for (const [key, kept] of rest) map.set(key, kept);
}

function planDraw() {
  if (isDrawPlanned) return;
  isDrawPlanned = true;
  // Not an animation frame: those stop in a tab in the background.
  setTimeout(() => { isDrawPlanned = false; draw(); }, DRAW_MS);
}

function draw() {
  const isEmpty = requests.size === 0;
  at("empty").hidden = !isEmpty;
  at("live").hidden = isEmpty;
  if (status) drawStatus();
  drawConversations();
  drawRequests();
}

function drawStatus() {
  at("totals").replaceChildren(...drawTotals(status));
  // One process alone is the sidecar itself: its numbers are the totals.
  const workers = status.workers?.each ?? [];
  at("workers").hidden = workers.length < 2;
  at("workers").replaceChildren(...drawWorkers(workers));
}

function drawRequests() {
  const shown = [...requests.values()].filter(isShown);
  arrange(at("requests"), shown.map((request) => remember(cards, request.id, () => drawRequest(request, loadDetails))));
  forget(cards, requests);
  at("none-shown").hidden = shown.length > 0;
}

function isShown(request) {
  if (chosen !== null && request.conversation !== chosen) return false;
  return !at("losses-only").checked || isLoss(request.verdict);
}

function drawConversations() {
  const items = [...conversations.values()].map((conversation) => {
    const item = remember(entries, conversation.id, () => makeEntry(conversation.id));
    const button = item.firstChild;
    button.setAttribute("aria-pressed", String(conversation.id === chosen));
    if (item.shown !== conversation) button.replaceChildren(...drawConversation(conversation));
    item.shown = conversation;
    return item;
  });
  arrange(at("conversations"), items);
  forget(entries, conversations);
  at("all").hidden = chosen === null;
}

function makeEntry(id) {
  const button = make("button", { type: "button", title: `Conversation ${id}` });
  button.addEventListener("click", () => choose(id === chosen ? null : id));
  return make("li", { "data-id": id }, button);
}

function choose(id) {
  chosen = id;
  draw();
}

function loadDetails(id) {
  return read(`/api/v1/requests/${encodeURIComponent(id)}`);
}

function remember(map, id, maker) {
  if (!map.has(id)) map.set(id, maker());
  return map.get(id);
}

function forget(drawn, kept) {
  for (const id of drawn.keys()) if (!kept.has(id)) drawn.delete(id);
}

/** Bring children into this order, moving as little as possible and keeping the focus. */
function arrange(parent, children) {
  const focused = document.activeElement;
  const wanted = new Set(children);
  for (const child of [...parent.children]) if (!wanted.has(child)) child.remove();
  let place = parent.firstChild;
  for (const child of children) {
    if (child === place) place = place.nextSibling;
    else parent.insertBefore(child, place);
  }
  if (focused !== document.activeElement && parent.contains(focused)) focused.focus({ preventScroll: true });
}

function showState(state, retryMs = null) {
  const words = retryMs === null ? state : `${state}, next try in ${Math.round(retryMs / 1000)} s`;
  const element = at("connection");
  // The same words again would be read out again.
  if (element.textContent !== words) element.textContent = words;
  element.dataset.state = state;
}

function askForToken() {
  const wasTried = !at("login").hidden;
  showState("locked");
  for (const id of ["empty", "live"]) at(id).hidden = true;
  at("login").hidden = false;
  at("login-error").textContent = wasTried ? "This is not the token." : "";
  at("token").focus();
}

function submitToken(event) {
  event.preventDefault();
  keepToken(at("token").value);
  at("token").value = "";
  open();
}

async function showCommands() {
  const address = await proxyAddress();
  const commands = [`export OPENAI_BASE_URL=http://${address}/v1`, `export ANTHROPIC_BASE_URL=http://${address}`];
  at("commands").replaceChildren(...commands.map((command) => drawCommand(command, copy)));
}

/** Where the proxy listens; an address that means "everywhere" is reached by this page's host. */
async function proxyAddress() {
  const config = await read("/api/v1/config").catch(() => ({}));
  const listen = typeof config.listen === "string" ? config.listen : "127.0.0.1:4141";
  return listen.replace(/^(0\.0\.0\.0|\[::\]|)(?=:\d+$)/, location.hostname);
}

async function copy(text, element) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Without https or permission there is no clipboard; the text is at least selected.
    getSelection().selectAllChildren(element);
    return false;
  }
}

start();
