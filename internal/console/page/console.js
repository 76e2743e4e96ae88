// The operator page: one client of the JSON API, as the command line is. What
// comes from outside reaches the document as text only.
import { purchases } from "./console-list.js";
import { purchase, sinks, connections, dead, silences } from "./console-views.js";

const $ = (id) => document.getElementById(id);
const tokenKey = "herald-token";

// h makes an element; children are elements or text.
export function h(tag, attributes = {}, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) e.addEventListener(name.slice(2), value);
    else if (value === true) e.setAttribute(name, "");
    else if (value !== false && value !== undefined && value !== null) e.setAttribute(name, String(value));
  }
  for (const c of children.flat(Infinity)) if (c !== null && c !== undefined && c !== false) e.append(c instanceof Node ? c : String(c));
  return e;
}

// Problem is an answer of the API that refuses.
export class Problem extends Error {
  constructor(status, field, problem) { super(problem); this.status = status; this.field = field; }
}

export async function api(path, options = {}) {
  const headers = {};
  const token = sessionStorage.getItem(tokenKey);
  if (token) headers.Authorization = "Bearer " + token;
  if (options.body !== undefined) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, { method: options.method || "GET", headers, cache: "no-store", redirect: "error", signal: options.signal,
      body: options.body === undefined ? undefined : JSON.stringify(options.body) });
  } catch (e) {
    if (e.name === "AbortError") throw e;
    throw new Problem(0, "", "the process does not answer");
  }
  if (answer.ok) {
    if (token) $("forget").hidden = false;
    if (options.stream) return answer;
    return answer.status === 204 ? null : answer.json();
  }
  if (answer.status === 401) askToken(token ? "This token is not accepted." : "");
  let said = {};
  try { said = (await answer.json()).error || {}; } catch { /* not ours: the status is all there is */ }
  throw new Problem(answer.status, said.field || "", said.problem || "the process answers " + answer.status);
}

function askToken(problem) {
  sessionStorage.removeItem(tokenKey);
  $("login-problem").textContent = problem;
  $("login").hidden = false;
  $("view").hidden = true;
  $("forget").hidden = true;
  $("token").focus();
}

export function say(text) {
  $("said").textContent = text;
  clearTimeout(say.timer);
  say.timer = setTimeout(() => { $("said").textContent = ""; }, 8000);
}

// ask has somebody confirm what cannot be undone.
export function ask(question, yes) {
  return new Promise((done) => {
    const end = (answer) => () => { d.close(); d.remove(); done(answer); };
    const d = h("dialog", { "aria-labelledby": "ask" }, h("p", { id: "ask" }, question),
      h("p", {}, h("button", { type: "button", class: "calm", onclick: end(false) }, "Cancel"),
        h("button", { type: "button", class: "risky", onclick: end(true) }, yes)));
    d.addEventListener("cancel", (e) => { e.preventDefault(); end(false)(); });
    document.body.append(d);
    d.showModal();
  });
}

export function span(ms) {
  if (ms < 0) return "in " + span(-ms);
  const s = Math.floor(ms / 1000);
  if (s < 60) return s + " s";
  if (s < 3600) return Math.floor(s / 60) + " min";
  if (s < 172800) return Math.floor(s / 3600) + " h " + (Math.floor(s / 60) % 60) + " min";
  return Math.floor(s / 86400) + " days";
}

// when shows a moment as a distance, with the moment itself beside it for those who ask.
export function when(text) {
  if (!text) return "–";
  const at = new Date(text);
  return h("time", { datetime: text, title: at.toLocaleString() }, past(Date.now() - at));
}

const past = (ms) => ms < 0 ? span(ms) : span(ms) + " ago";

export function tone(situation, unsettled) {
  if (situation === "needs_support") return "bad";
  if (situation === "confirming" || unsettled) return "warn";
  return situation === "done" ? "good" : "plain";
}

export const words = (name) => String(name || "").replaceAll("_", " ");

export function badge(text, kind) { return h("span", { class: "badge " + kind }, words(text)); }

// The views, by the first part of the address after #.
const views = { "": purchases, purchase, sinks, connections, dead, silences };
let leave = new AbortController();

// decoded reads one part of the address; one that was typed wrong is taken as it is.
function decoded(part) { try { return decodeURIComponent(part); } catch { return part; } }

async function show() {
  leave.abort();
  leave = new AbortController();
  const [name, ...rest] = location.hash.replace(/^#\/?/, "").split("/").map(decoded);
  const known = Object.hasOwn(views, name), view = known ? views[name] : purchases;
  const active = name === "purchase" || !known ? "" : name;
  for (const a of document.querySelectorAll("nav a")) {
    if (a.getAttribute("href") === "#/" + active) a.setAttribute("aria-current", "page"); else a.removeAttribute("aria-current");
  }
  const main = $("view");
  main.hidden = false;
  $("login").hidden = true;
  main.replaceChildren(h("p", { class: "note" }, "Loading"));
  try {
    await view(main, { signal: leave.signal, changes, rest });
  } catch (e) {
    if (e.name !== "AbortError" && e.status !== 401) main.replaceChildren(h("h2", {}, "Not shown"), h("p", { class: "problem", role: "alert" }, e.message));
  }
}

// changes tells views what the live stream says.
const changes = new EventTarget();
const pause = (ms) => new Promise((done) => setTimeout(done, ms));

async function follow() {
  for (let wait = 1000; ; wait = Math.min(2 * wait, 15000)) {
    try {
      const answer = await api("/v1/live?since=5s", { stream: true });
      live("live", false);
      changes.dispatchEvent(new Event("again"));
      wait = 1000;
      await read(answer.body.getReader());
    } catch (e) {
      if (e.status === 401) { live("token needed", true); await tokenGiven(); wait = 500; }
    }
    live("no connection, trying again", true);
    await pause(wait);
  }
}

function tokenGiven() { return new Promise((done) => changes.addEventListener("token", done, { once: true })); }

function live(text, lost) {
  if ($("live").textContent !== text) $("live").textContent = text;
  $("live").classList.toggle("lost", lost);
}

// read takes server-sent events apart.
async function read(reader) {
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (rest + decoder.decode(value, { stream: true })).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      const name = /^event: (.*)$/m.exec(part), data = /^data: (.*)$/m.exec(part);
      if (name && data) changes.dispatchEvent(new CustomEvent(name[1], { detail: JSON.parse(data[1]) }));
    }
  }
}

$("login-form").addEventListener("submit", (e) => {
  e.preventDefault();
  sessionStorage.setItem(tokenKey, $("token").value.trim());
  $("token").value = "";
  changes.dispatchEvent(new Event("token"));
  show();
});
$("forget").addEventListener("click", () => { sessionStorage.removeItem(tokenKey); location.reload(); });
$("skip").addEventListener("click", (e) => { e.preventDefault(); $("view").focus(); });
$("search").addEventListener("submit", (e) => {
  e.preventDefault();
  const text = $("q").value.trim();
  $("q").value = "";
  location.hash = /^pur_[0-9a-f]{32}$/.test(text) ? "#/purchase/" + text : text ? "#/find/" + encodeURIComponent(text) : "#/";
});
addEventListener("hashchange", () => { show(); scrollTo(0, 0); });
changes.addEventListener("notice", (e) => say(e.detail.connection + ": " + e.detail.text));
show();
follow();
