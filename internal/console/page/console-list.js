// The list of purchases. Only the rows that can be seen are in the document, so
// that ten thousand of them cost no more than fifty.
import { h, api, badge, tone, words, span } from "./console.js";

const order = ["needs_support", "confirming", "unsettled", "waiting_for_user", "needs_answer", "needs_details", "ready", "working", "unknown", "stopped", "done"];
const titles = { unsettled: "money not settled" };
const most = 50000; // purchases that are loaded
const spare = 12; // rows kept ready above and below

function groupOf(p) {
  return p.unsettled && p.situation !== "needs_support" && p.situation !== "confirming" ? "unsettled" : p.situation;
}

function before(a, b) {
  const ga = order.indexOf(groupOf(a)), gb = order.indexOf(groupOf(b));
  if (ga !== gb) return ga - gb;
  if (a.attention) return String(a.situation_since).localeCompare(String(b.situation_since));
  if (Boolean(a.deadline_at) !== Boolean(b.deadline_at)) return a.deadline_at ? -1 : 1;
  if (a.deadline_at) return a.deadline_at.localeCompare(b.deadline_at);
  return String(b.stored).localeCompare(String(a.stored));
}

export async function purchases(main, { signal, changes, rest }) {
  const search = rest.length ? rest[0].toLowerCase() : "";
  const all = new Map();
  let chosen = "";
  const filters = h("ul", { class: "filters", "aria-label": "Situations" });
  const note = h("p", { class: "note", role: "status" });
  const rows = new Window(signal);
  main.replaceChildren(h("h2", {}, search ? "Purchases with “" + search + "”" : "Purchases"), filters, note, rows.element);

  const wanted = (p) => !search || p.id.includes(search) || p.chain_root.includes(search) || p.merchant.toLowerCase().includes(search);
  const take = (p) => {
    const key = p.id + "/" + p.connection, had = all.get(key);
    if (!had || had.sequence <= p.sequence) all.set(key, p);
  };
  let timer = 0;
  const soon = () => { if (!timer) timer = setTimeout(() => { timer = 0; if (!signal.aborted) draw(); }, 250); };

  function draw() {
    const list = [...all.values()].filter(wanted);
    const counts = {};
    for (const p of list) counts[groupOf(p)] = (counts[groupOf(p)] || 0) + 1;
    const shown = list.filter((p) => !chosen || groupOf(p) === chosen).sort(before);
    const urgent = list.filter((p) => p.attention).length;
    document.title = (urgent ? "(" + urgent + ") " : "") + "Herald";
    note.textContent = list.length ? urgent + " of " + list.length + " need attention" : search ? "Nothing found." : "No purchase has been seen yet.";
    drawFilters(counts);
    const items = [];
    let last = "";
    for (const p of shown) {
      const g = groupOf(p);
      if (g !== last) { items.push({ key: "head-" + g, head: words(titles[g] || g) + " (" + counts[g] + ")" }); last = g; }
      items.push({ key: p.id + "/" + p.connection, p });
    }
    rows.set(items);
  }

  function drawFilters(counts) {
    const names = ["", ...order.filter((g) => counts[g])];
    const key = names.map((g) => g + ":" + (counts[g] || "")).join() + chosen;
    if (filters.dataset.key === key) return;
    filters.dataset.key = key;
    const focused = document.activeElement && filters.contains(document.activeElement) ? document.activeElement.dataset.group : null;
    filters.replaceChildren(...names.map((g) => h("li", {}, h("button", {
      type: "button", "data-group": g, "aria-pressed": String(chosen === g), onclick: () => { chosen = g; draw(); },
    }, g ? words(titles[g] || g) + " " + counts[g] : "all"))));
    if (focused !== null) filters.querySelector('[data-group="' + focused + '"]')?.focus();
  }

  async function load() {
    let after = "";
    do {
      const page = await api("/v1/purchases?limit=" + (after ? 5000 : 500) + "&after=" + encodeURIComponent(after), { signal });
      page.items.forEach(take);
      after = page.next || "";
      draw();
    } while (after && all.size < most);
  }
  changes.addEventListener("purchase", (e) => { take(e.detail); soon(); }, { signal });
  changes.addEventListener("again", () => { load().catch(() => {}); }, { signal });
  const clock = setInterval(() => rows.refresh(), 15000);
  signal.addEventListener("abort", () => { clearInterval(clock); clearTimeout(timer); });
  await load();
}

// Window shows the part of a long list that is on the screen.
class Window {
  constructor(signal) {
    this.items = [];
    this.tops = [0]; // where each item begins, and where the last one ends
    this.nodes = new Map();
    this.element = h("div", { class: "rows", role: "list", "aria-label": "Purchases" });
    const draw = () => { if (!this.asked) { this.asked = true; requestAnimationFrame(() => { this.asked = false; this.draw(); }); } };
    addEventListener("scroll", draw, { signal, passive: true });
    addEventListener("resize", draw, { signal });
    this.element.addEventListener("keydown", (e) => this.key(e));
  }

  set(items) { this.items = items; this.draw(); }

  refresh() { for (const n of this.nodes.values()) n.item = null; this.draw(); }

  // measure works out where the items are: rows and heads have a height each, which the style says.
  measure() {
    const style = getComputedStyle(document.documentElement);
    const height = (name) => parseFloat(style.getPropertyValue(name)) * parseFloat(style.fontSize);
    const row = height("--row"), head = height("--head");
    let y = 0;
    this.tops = [0, ...this.items.map((item) => (y += item.p ? row : head))];
    this.element.style.height = y + "px";
  }

  // at gives the item at a height.
  at(y) {
    let low = 0, high = this.items.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.tops[middle + 1] <= y) low = middle + 1; else high = middle;
    }
    return low;
  }

  draw() {
    this.measure();
    const top = this.element.getBoundingClientRect().top;
    const first = Math.max(0, this.at(-top) - spare);
    const last = Math.min(this.items.length, this.at(innerHeight - top) + 1 + spare);
    const kept = new Set();
    let previous = null;
    for (let i = first; i < last; i++) {
      const item = this.items[i];
      kept.add(item.key);
      const row = this.row(item, i);
      row.element.style.transform = "translateY(" + this.tops[i] + "px)";
      if (row.element.parentNode !== this.element || (previous ? previous.nextSibling : this.element.firstChild) !== row.element) {
        if (row.element !== document.activeElement) this.element.insertBefore(row.element, previous ? previous.nextSibling : this.element.firstChild);
      }
      previous = row.element;
    }
    for (const [key, row] of this.nodes) {
      if (kept.has(key) || row.element === document.activeElement) continue;
      row.element.remove();
      this.nodes.delete(key);
    }
  }

  row(item, i) {
    let row = this.nodes.get(item.key);
    if (!row) {
      row = { element: item.p ? h("a", { class: "purchase", role: "listitem", href: "#/purchase/" + item.p.id }) : h("h3", { class: "head" }), item: null };
      this.nodes.set(item.key, row);
    }
    row.element.dataset.index = i;
    if (row.item !== item.p || !item.p) {
      row.item = item.p;
      row.element.replaceChildren(...(item.p ? cells(item.p) : [item.head]));
    }
    row.element.setAttribute(item.p ? "aria-posinset" : "data-head", i + 1);
    if (item.p) row.element.setAttribute("aria-setsize", this.items.length);
    return row;
  }

  // key moves from row to row with the arrows, also to those not in the document yet.
  key(e) {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 }[e.key];
    if (!step || e.target.dataset.index === undefined) return;
    e.preventDefault();
    let i = Number(e.target.dataset.index) + step;
    i = Math.min(Math.max(i, 0), this.items.length - 1);
    while (this.items[i] && !this.items[i].p) i += step > 0 || i === 0 ? 1 : -1;
    if (!this.items[i]) return;
    const height = this.tops[i + 1] - this.tops[i], y = this.element.getBoundingClientRect().top + this.tops[i];
    if (y < height) scrollBy(0, y - height); else if (y + 2 * height > innerHeight) scrollBy(0, y + 2 * height - innerHeight);
    this.draw();
    this.nodes.get(this.items[i].key)?.element.focus({ preventScroll: true });
  }
}

function cells(p) {
  const due = p.deadline_at ? new Date(p.deadline_at) - Date.now() : 0;
  const until = p.overdue ? "overdue" : p.deadline_at ? (due > 0 ? span(due) + " left" : "overdue") : p.terminal ? "" : "on " + (p.waiting_on || "nobody");
  return [
    badge(p.situation, tone(p.situation, p.unsettled)),
    h("span", { class: "merchant" }, p.merchant || "unknown merchant"),
    h("span", { class: "amount right" }, p.amount || "–"),
    h("span", { class: "id", title: p.id }, p.id),
    h("span", { class: "money" }, "money " + words(p.money)),
    h("span", { class: "since" }, p.attention || !until ? "for " + span(Date.now() - new Date(p.situation_since || p.stored)) : until),
  ];
}
