// The other views: one purchase, sinks, connections, dead letters, silences.
import { h, api, ask, say, badge, tone, when, words, span } from "./console.js";

const pace = 5000; // of views that nobody tells of changes

// every draws now and then, as long as the view is shown and the tab is seen.
async function every(signal, draw) {
  await draw();
  const timer = setInterval(() => { if (!document.hidden) draw().catch(() => {}); }, pace);
  signal.addEventListener("abort", () => clearInterval(timer));
}

// once redraws only what has changed, so that focus and selection stay.
function once(element, data, draw) {
  const key = JSON.stringify(data);
  if (element.dataset.key === key || element.contains(document.activeElement) && document.activeElement.matches("input, textarea, select")) return;
  const index = [...element.querySelectorAll("button, a, summary")].indexOf(document.activeElement);
  element.dataset.key = key;
  element.replaceChildren(...draw(data));
  if (index >= 0) element.querySelectorAll("button, a, summary")[index]?.focus();
}

function facts(pairs) {
  return h("dl", {}, pairs.filter(([, v]) => v !== "" && v !== undefined && v !== null).map(([k, v]) => h("div", {}, h("dt", {}, k), h("dd", {}, v))));
}

const failing = (e) => say("Not done: " + e.message);

// press makes a button that does one thing at a time.
function press(text, kind, act) {
  const b = h("button", { type: "button", class: kind, onclick: async () => {
    b.disabled = true;
    try { await act(); } catch (e) { failing(e); }
    b.disabled = false;
  } }, text);
  return b;
}

export async function purchase(main, { signal, changes, rest }) {
  const id = rest[0] || "";
  let drawing = null;
  async function draw() {
    const v = await api("/v1/purchases/" + encodeURIComponent(id), { signal });
    let why = null;
    try { why = await api("/v1/explain/" + encodeURIComponent(id), { signal }); } catch (e) { if (e.name === "AbortError" || e.status === 401) throw e; }
    if (signal.aborted) return;
    once(main, [v, why], () => purchaseParts(v, why));
  }
  const again = () => { clearTimeout(drawing); drawing = setTimeout(() => draw().catch(() => {}), 500); };
  changes.addEventListener("purchase", (e) => { if (e.detail.id === id) again(); }, { signal });
  main.removeAttribute("data-key");
  signal.addEventListener("abort", () => { clearTimeout(drawing); main.removeAttribute("data-key"); });
  await draw();
}

function purchaseParts(v, why) {
  const s = v.current, last = v.history[v.history.length - 1].event.data;
  const fates = new Map((why ? why.events : []).map((e) => [e.id, e.sinks]));
  return [
    h("h2", {}, s.merchant || "Unknown merchant", " ", s.amount),
    h("p", {}, badge(s.situation, tone(s.situation, s.unsettled)), " ", h("code", {}, v.id)),
    facts([
      ["Since", when(s.situation_since)], ["Decided by", words(last.situation_basis) + (s.certain ? "" : " (not certain)")],
      ["Money", words(s.money) + ", by " + words(last.money_basis)], ["Waiting on", s.waiting_on],
      ["Deadline", s.deadline_at ? h("span", {}, words(s.deadline), " ", when(s.deadline_at)) : ""], ["Connection", s.connection],
      ["State at Envoy", s.state], ["Rail", words(last.rail)], ["Checks out", last.checkout_by], ["Reason", last.reason_code],
      ["Held", last.held ? words(last.held.state) + " " + (last.held.amount ? last.held.amount.display : "") : ""],
      ["Agent", last.agent ? last.agent.display_name : ""], ["Support", last.support ? last.support.ref || last.support.request_id : ""],
      ["Replaced by", v.chain.superseded_by ? link(v.chain.superseded_by) : ""], ["Replaces", v.chain.supersedes ? link(v.chain.supersedes) : ""],
    ]),
    last.say ? h("p", { class: "note" }, "Told to the buyer: " + last.say) : null,
    v.cut ? h("p", { class: "note" }, "The oldest events are left out.") : null,
    h("h2", {}, "History"),
    h("ol", { class: "timeline", "aria-label": "Events, the newest first" }, [...v.history].reverse().map((e) => eventCard(e, fates.get(e.event.id)))),
  ].filter(Boolean);
}

function link(id) { return h("a", { href: "#/purchase/" + encodeURIComponent(id) }, h("code", {}, id)); }

function eventCard(e, fates) {
  const d = e.event.data, r = d.reading;
  return h("li", { class: "card" },
    h("header", {}, h("h3", {}, "Revision " + r.revision + (r.n ? "." + r.n : "")), badge(d.overdue ? "overdue" : d.situation, tone(d.situation, d.unsettled)), when(e.stored)),
    h("p", {}, "money ", words(d.money), " · by ", words(d.situation_basis), " and ", words(d.money_basis), " · ", words(r.cause),
      r.changed && r.changed.length ? " · changed: " + r.changed.map(words).join(", ") : ""),
    fates ? table(["Sink", "Fate", "Tries", "Why", "Next"], fates.map((f) => [f.sink, badge(f.fate, fateTone(f.fate)), f.attempts || "–",
      f.why + (f.subscription ? " (" + f.subscription + ")" : ""), f.until ? when(f.until) : "–"])) : null,
    !fates && e.deliveries && e.deliveries.length ? table(["Sink", "Outcome"], e.deliveries.map((x) => [x.sink, words(x.outcome)])) : null,
    e.deliveries && e.deliveries.length ? h("details", {}, h("summary", {}, "Every try"),
      table(["At", "Sink", "Outcome", "Try", "Took", "Detail"], e.deliveries.flatMap((x) => x.attempts.map((a) =>
        [new Date(a.at).toLocaleString(), x.sink, words(a.outcome), a.attempt, a.millis + " ms", a.detail || words(a.reason)])))) : null);
}

function fateTone(fate) {
  return { delivered: "good", buried: "bad", retrying: "warn", waiting: "warn", silenced: "warn", pending: "warn" }[fate] || "plain";
}

function table(head, rows) {
  return h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, head.map((x) => h("th", { scope: "col" }, x)))),
    h("tbody", {}, rows.map((r) => h("tr", {}, r.map((x) => h("td", {}, x)))))));
}

export async function sinks(main, { signal }) {
  const list = h("div", {});
  main.replaceChildren(h("h2", {}, "Sinks"), list);
  await every(signal, async () => {
    const page = await api("/v1/sinks?limit=5000", { signal });
    once(list, page.items, (items) => items.length ? items.map(sinkCard) : [h("p", { class: "note" }, "No sink is known.")]);
  });
}

function sinkCard(s) {
  const kind = { running: "good", down: "bad", paused: "bad", gone: "bad" }[s.state] || "warn";
  return h("section", { class: "card", "aria-label": s.name },
    h("header", {}, h("h3", {}, s.name), badge(s.state, kind), press("Send a test", "calm", async () => {
      const r = await api("/v1/sinks/" + encodeURIComponent(s.name) + "/test", { method: "POST", body: {} });
      say(s.name + ": test " + r.status + (r.problem ? ": " + r.problem : ""));
    })),
    s.failure || s.store_error ? h("p", { class: "problem" }, s.store_error || s.failure) : null,
    facts([["Kind", s.kind], ["In this state", when(s.since)], ["Next probe", s.next_probe ? when(s.next_probe) : ""], ["Last success", when(s.last_success)],
      ["Backlog", s.backlog], ["Accepted a minute", Math.round(s.rate * 10) / 10], ["In hand", s.in_hand], ["Alarms waiting", s.waiting], ["Delivered by", s.owner || (s.configured ? "nobody now" : "nobody: not in a running configuration")]]));
}

export async function connections(main, { signal }) {
  const list = h("div", {});
  main.replaceChildren(h("h2", {}, "Connections"), list);
  await every(signal, async () => {
    const page = await api("/v1/connections?limit=5000", { signal });
    once(list, page.items, (items) => items.length ? items.map(connectionCard) : [h("p", { class: "note" }, "No process that watches answers.")]);
  });
}

function connectionCard(c) {
  const [state, kind] = c.parked ? ["parked", "bad"] : c.blind ? ["blind", "bad"] : c.owner ? ["watching", "good"] : ["no owner", "warn"];
  const why = { token: "Envoy does not accept the token.", not_allowed: "Envoy refuses every call.", service: "The service is not enabled for this user.", client_update: "Envoy wants a newer version of Herald." };
  return h("section", { class: "card", "aria-label": c.name },
    h("header", {}, h("h3", {}, c.name), badge(state, kind)),
    c.parked ? h("p", { class: "problem" }, (why[c.parked] || c.parked) + " Parked ", when(c.parked_since), ".") : null,
    c.blind ? h("p", { class: "problem" }, c.blind_why) : null,
    facts([["Calls in the last minute", c.calls + " of " + c.share], ["Told to wait until", c.closed_until ? when(c.closed_until) : ""], ["Open purchases", c.open],
      ["With money that hangs", c.unsettled], ["Held reads", c.holds], ["Registered", c.registered], ["Not stored yet", c.unpublished || ""],
      ["Last reply", when(c.last_reply)], ["Last event", when(c.last_publish)], ["Watched by", c.owner || "nobody now"]]));
}

export async function dead(main, { signal }) {
  const list = h("div", {});
  main.replaceChildren(h("h2", {}, "Dead letters"), list);
  const draw = async () => {
    const page = await api("/v1/dead?limit=500", { signal });
    once(list, page, (p) => deadParts(p, draw));
  };
  await every(signal, draw);
}

function deadParts(page, draw) {
  if (!page.items.length) return [h("p", { class: "note" }, "No dead letter rests.")];
  const bySink = {};
  for (const d of page.items) bySink[d.sink] = (bySink[d.sink] || 0) + 1;
  return [
    h("p", {}, Object.keys(bySink).sort().map((sink) => [press("Replay all of " + sink, "calm", async () => {
      if (await ask("Have every dead letter of " + sink + " sent again?", "Replay all")) { await replay({ sink }); await draw(); }
    }), " "])),
    page.next ? h("p", { class: "note" }, "The first " + page.items.length + " of " + page.total + ".") : null,
    ...page.items.map((d) => deadCard(d, draw)),
  ].filter(Boolean);
}

async function replay(what) {
  const r = await api("/v1/dead/replay", { method: "POST", body: what });
  const refused = r.letters.find((l) => l.problem);
  say(r.asked + " of " + r.matched + " taken" + (refused ? "; " + refused.problem : ""));
}

function deadCard(d, draw) {
  const more = h("details", {}, h("summary", {}, "The event"));
  more.addEventListener("toggle", async () => {
    if (!more.open || more.childElementCount > 1) return;
    try {
      const page = await api("/v1/dead/" + encodeURIComponent(d.event_id));
      const one = page.items.find((x) => x.sink === d.sink);
      more.append(h("pre", { tabindex: "0" }, one && one.event ? JSON.stringify(one.event, null, 2) : "It is no JSON."));
    } catch (e) { failing(e); }
  });
  return h("section", { class: "card", "aria-label": d.event_id + " at " + d.sink },
    h("header", {}, h("h3", {}, d.sink), badge(d.reason, "bad"),
      h("span", { class: "acts" }, press("Replay", "calm", async () => { await replay({ event: d.event_id, sink: d.sink }); await draw(); }),
        press("Drop", "risky", async () => {
          if (!await ask("Drop this event for " + d.sink + " for good? It will not be delivered.", "Drop")) return;
          await api("/v1/dead/" + encodeURIComponent(d.sink) + "/" + encodeURIComponent(d.event_id), { method: "DELETE" });
          say("Dropped.");
          await draw();
        }))),
    h("p", { class: "problem" }, d.detail),
    facts([["Event", h("code", {}, d.event_id)], ["Purchase", d.purchase_id ? link(d.purchase_id) : ""], ["Situation", words(d.situation)],
      ["Tries", d.attempts], ["First tried", when(d.first)], ["Buried", when(d.buried)]]), more);
}

export async function silences(main, { signal }) {
  const list = h("div", {});
  const draw = async () => {
    const page = await api("/v1/silences?limit=5000", { signal });
    once(list, page.items, (items) => items.length ? items.map((s) => silenceCard(s, draw)) : [h("p", { class: "note" }, "No silence is in force.")]);
  };
  main.replaceChildren(h("h2", {}, "Silences"), h("p", { class: "note" }, "A silence postpones alarms until it ends. It swallows nothing, and it never holds a plain webhook back."),
    list, silenceForm(draw));
  await every(signal, draw);
}

function silenceCard(s, draw) {
  return h("section", { class: "card", "aria-label": s.id },
    h("header", {}, h("h3", {}, s.why), press("Remove", "risky", async () => {
      await api("/v1/silences/" + encodeURIComponent(s.id), { method: "DELETE" });
      say("Removed.");
      await draw();
    })),
    facts([["Events", h("code", {}, s.match)], ["Ends", span(Date.now() - new Date(s.until))], ["By", s.by]]));
}

function silenceForm(draw) {
  const problem = {};
  const field = (name, label, input) => {
    input.id = "silence-" + name;
    problem[name] = h("p", { class: "problem", id: input.id + "-problem", role: "alert" });
    input.setAttribute("aria-describedby", problem[name].id);
    return h("div", { class: "field" }, h("label", { for: input.id }, label), input, problem[name]);
  };
  const match = h("input", { type: "text", required: true, spellcheck: "false", autocomplete: "off", placeholder: 'connection == "host-a"' });
  const long = h("select", {}, [["30m", "30 minutes"], ["2h", "2 hours"], ["8h", "8 hours"], ["24h", "1 day"], ["168h", "7 days"]].map(([v, t]) => h("option", { value: v, selected: v === "2h" }, t)));
  const why = h("input", { type: "text", required: true, maxlength: "500", autocomplete: "off" });
  const by = h("input", { type: "text", maxlength: "80", autocomplete: "username" });
  return h("form", { "aria-labelledby": "add-title", onsubmit: async (e) => {
    e.preventDefault();
    for (const p of Object.values(problem)) p.textContent = "";
    try {
      await api("/v1/silences", { method: "POST", body: { match: match.value, for: long.value, why: why.value, by: by.value } });
      match.value = why.value = "";
      say("Added.");
      await draw();
    } catch (err) { (problem[err.field === "until" ? "for" : err.field] || problem.match).textContent = err.message; }
  } }, h("h2", { id: "add-title" }, "Add a silence"), field("match", "Which events (CEL)", match), field("for", "For", long), field("why", "Why", why), field("by", "By", by),
    h("button", { type: "submit" }, "Add"));
}
