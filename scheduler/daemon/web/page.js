// The page: asks for a snapshot every two seconds and shows it. Nothing is sent, nothing is kept.
//
// Trap: labels and functions are names that programs gave themselves. They come into the page as text only, never as HTML.
"use strict";

const ASK_EVERY_MS = 2000;
const GIVE_UP_MS = 8000;
const TIMELINE_MS = 5 * 60 * 1000;
const LANE = 22;
const LANES_MAX = 60;
const SVG = "http://www.w3.org/2000/svg";

const byId = (id) => document.getElementById(id);

/** An element with text or children. */
function element(name, properties, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children.filter((child) => child !== null));
  return made;
}

function drawn(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

/** `15.6 GiB`, `10 MiB`, `512 B`, as every program of Eager shows sizes. */
function size(bytes) {
  for (const [unit, scale] of [["TiB", 2 ** 40], ["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]]) {
    if (bytes < scale) continue;
    const value = bytes / scale;
    return (value < 99.95 ? value.toFixed(1).replace(".0", "") : Math.min(1023, Math.round(value))) + " " + unit;
  }
  return bytes + " B";
}

/** `31 ms`, `0.4 s`, `12 s`, `2m06s`, `2h07m`, `4d03h`. */
function time(ms) {
  const seconds = Math.floor(ms / 1000);
  const two = (first, unit, second, below) => `${Math.floor(first)}${unit}${String(Math.floor(second)).padStart(2, "0")}${below}`;
  if (ms > 0 && ms < 100) return Math.floor(ms) + " ms";
  if (seconds < 10) return Math.floor(ms / 100) / 10 + " s";
  if (seconds < 60) return seconds + " s";
  if (seconds < 3600) return two(seconds / 60, "m", seconds % 60, "s");
  if (seconds < 86400) return two(seconds / 3600, "h", seconds / 60 % 60, "m");
  return two(seconds / 86400, "d", seconds / 3600 % 24, "h");
}

/** Bytes per second that each device pages, from the snapshots of the last seconds. */
const paging = {
  seen: [],
  see(snapshot) {
    const last = this.seen.at(-1);
    if (last && last.at > snapshot.daemon.uptime_ms) this.seen = [];
    const paged = new Map(snapshot.devices.map((device) => [device.device, device.paged_bytes]));
    this.seen.push({ at: snapshot.daemon.uptime_ms, paged });
    if (this.seen.length > 4) this.seen.shift();
  },
  rate(device) {
    const [first, last] = [this.seen[0], this.seen.at(-1)];
    const [before, after] = [first.paged.get(device), last.paged.get(device)];
    if (last.at <= first.at || before == null || after == null) return null;
    return Math.max(0, after - before) * 1000 / (last.at - first.at);
  },
};

/** `solver::relax` for `_ZN6solver5relaxIfEEvPT_l`: C++ names without arguments; `eager` shows those of templates too. */
function readable(text) {
  return text.replace(/\b_Z[\w$]+/g, (mangled) => {
    const names = [];
    let rest = mangled.replace(/^_ZN?/, "");
    for (let length; (length = /^L?(\d+)/.exec(rest)); rest = rest.slice(names.at(-1).length)) {
      rest = rest.slice(length[0].length);
      names.push(rest.slice(0, Number(length[1])));
    }
    return names.join("::") || mangled;
  });
}

/** A task or its life by the names that the program gave. */
function named(task) {
  return task.function ? `${task.label} (${readable(task.function)})` : task.label;
}

function showDaemon(snapshot) {
  const it = snapshot.daemon;
  byId("daemon").textContent =
    `${it.version} · policy ${it.policy} · up ${time(it.uptime_ms)} · ${it.clients} programs · ` +
    `${it.running} running · ${it.waiting} waiting`;
  const notes = [];
  if (it.policy_state.startsWith("reverted")) notes.push(`policy ${it.policy_state}`);
  if (it.unattached > 0) notes.push(`${it.unattached} programs have not reconnected since the daemon was restarted`);
  if (it.overruns > 0) notes.push(`${it.overruns} times a program used more than it declared`);
  for (const device of snapshot.devices) {
    if (device.drained_ms != null) notes.push(`GPU ${device.device}: drained for ${time(device.drained_ms)}: nothing new starts there`);
  }
  if (it.state_problem) notes.push(`the state file cannot be written (${it.state_problem}): a restart would lose what is granted`);
  if (it.journal_problem) notes.push(`the journal cannot be written (${it.journal_problem}): what is decided is not recorded`);
  if (it.history_problem) notes.push(`the history of runs cannot be written (${it.history_problem})`);
  if (it.ended_problem) notes.push(`the list of ended programs cannot be written (${it.ended_problem})`);
  if (it.usage_problem) notes.push(it.usage_problem);
  byId("notes").hidden = notes.length === 0;
  byId("notes").replaceChildren(...notes.map((note) => element("li", { textContent: note })));
}

/** Parts of a device's bar: class and bytes. Beyond its capacity comes what eager tasks need and do not have. */
function parts(device, tasks) {
  const theirs = tasks.filter((task) => task.device === device.device && task.class === "eager");
  const eager = Math.min(device.granted_bytes, theirs.reduce((sum, task) => sum + task.grant_bytes, 0));
  const taken = device.granted_bytes + device.context_bytes + device.unaccounted_bytes;
  return [
    ["normal", device.granted_bytes - eager],
    ["eager", eager],
    ["contexts", device.context_bytes],
    ["unaccounted", device.unaccounted_bytes],
    ["free", Math.max(0, device.capacity_bytes - taken)],
  ];
}

function bar(device, tasks, scale) {
  const piece = ([name, bytes]) => {
    const made = element("span", { className: name });
    made.style.width = (100 * bytes / (device.capacity_bytes * scale)) + "%";
    return made;
  };
  const over = device.oversubscribed_bytes > 0
    ? [element("span", { className: "end" }), piece(["over", device.oversubscribed_bytes])] : [];
  const pieces = parts(device, tasks).filter(([, bytes]) => bytes > 0).map(piece);
  const said = `${size(device.granted_bytes)} of ${size(device.capacity_bytes)} granted, ` +
    `${size(device.oversubscribed_bytes)} over-subscribed`;
  const made = element("div", { className: "bar" }, ...pieces, ...over);
  made.setAttribute("role", "img");
  made.setAttribute("aria-label", said);
  return made;
}

function showDevices(snapshot) {
  const over = (device) => device.oversubscribed_bytes / Math.max(1, device.capacity_bytes);
  // One scale for all, so that their capacities end at one place.
  const scale = 1 + Math.max(0, ...snapshot.devices.map(over)) * 1.02;
  const cards = snapshot.devices.map((device) => {
    const rate = paging.rate(device.device);
    const facts = [
      ["granted", `${size(device.granted_bytes)} of ${size(device.capacity_bytes)}`],
      ["over-subscribed", device.oversubscribed_bytes > 0 ? size(device.oversubscribed_bytes) : null],
      ["contexts", device.context_bytes > 0 ? size(device.context_bytes) : null],
      ["free", size(device.free_bytes)],
      ["resident", device.resident_bytes == null ? null : size(device.resident_bytes)],
      ["pinned", device.pinned_bytes == null ? null : size(device.pinned_bytes)],
      ["not ours", device.unaccounted_bytes > 0 ? size(device.unaccounted_bytes) : null],
      ["utilization", device.utilization_percent == null ? null : device.utilization_percent + " %"],
      ["paging", rate === null ? null : size(Math.round(rate)) + "/s"],
      ["tasks", `${device.normal_tasks} normal, ${device.eager_tasks} eager`],
    ].filter(([, value]) => value !== null);
    return element("article", { className: "device" },
      element("h3", {}, `GPU ${device.device}`, element("span", { textContent: `${device.name}, ${device.kind}` })),
      bar(device, snapshot.tasks, scale),
      element("dl", {}, ...facts.map(([name, value]) =>
        element("div", {}, element("dt", { textContent: name }), element("dd", { textContent: value })))));
  });
  byId("devices").replaceChildren(...cards);
}

function state(task) {
  const said = task.state === "running" ? task.class : task.class ? `${task.class}, ${task.state}` : task.state;
  return element("span", { className: `state is-${task.class || task.state}`, textContent: said });
}

function showTasks(snapshot) {
  const cell = (text, isNumber) => element("td", { textContent: text, className: isNumber ? "number" : "" });
  const rows = snapshot.tasks.map((task) => {
    const runs = task.device != null;
    const held = task.held_kernel ? `kernel ${task.held_kernel} stands at its gate for ${time(task.held_ms)}: ` : "";
    return element("tr", {},
      cell(task.task, true),
      cell(named(task)),
      element("td", {}, state(task)),
      cell(runs ? task.device : "–", true),
      cell(size(task.requirement_bytes), true),
      cell(runs ? size(task.grant_bytes) : "–", true),
      cell(task.resident_bytes == null ? "–" : size(task.resident_bytes), true),
      cell(task.pinned_bytes == null ? "–" : size(task.pinned_bytes), true),
      cell(time(task.waited_ms), true),
      cell(runs ? time(task.running_ms) : "–", true),
      cell(readable(held + task.reason)));
  });
  const none = element("tr", {}, element("td", { colSpan: 11, className: "none", textContent: "No tasks now." }));
  byId("tasks").replaceChildren(...(rows.length ? rows : [none]));
  const all = snapshot.daemon.running + snapshot.daemon.waiting;
  byId("more").hidden = all <= snapshot.tasks.length;
  byId("more").textContent = `The oldest ${snapshot.tasks.length} of ${all} tasks.`;
}

/** Lanes: a row for each task, the newest first, with its state over time. */
function showTimeline(snapshot) {
  const box = byId("timeline");
  const now = snapshot.now_ms;
  const from = Math.max(0, now - TIMELINE_MS);
  const lives = snapshot.lives.filter((life) => (life.ended_ms ?? now) >= from).reverse();
  if (lives.length === 0) {
    return box.replaceChildren(element("p", { className: "none", textContent: "Nothing ran in the last five minutes." }));
  }
  const shown = lives.slice(0, LANES_MAX);
  const width = Math.max(400, box.clientWidth - 2);
  const left = 190;
  const place = (ms) => left + (Math.max(ms, from) - from) / Math.max(1, now - from) * (width - left - 14);
  const height = 26 + shown.length * LANE + 6;
  const picture = drawn("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img" });
  picture.append(drawn("title", {}, `${lives.length} tasks of the last ${time(now - from)}`));
  grid(picture, from, now, place, height);
  shown.forEach((life, lane) => drawLife(picture, life, 26 + lane * LANE, { now, from, place, left }));
  const more = lives.length > shown.length
    ? [element("p", { className: "none", textContent: `The newest ${shown.length} of ${lives.length} tasks.` })] : [];
  box.replaceChildren(picture, ...more);
}

function grid(picture, from, now, place, height) {
  const steps = [1, 2, 5, 10, 30, 60, 120].map((seconds) => seconds * 1000);
  const step = steps.find((ms) => (now - from) / ms <= 8) ?? steps.at(-1);
  for (let at = now; at >= from; at -= step) {
    const x = place(at);
    picture.append(drawn("line", { class: "grid", x1: x, x2: x, y1: 20, y2: height }));
    const said = at === now ? "now" : `−${time(now - at)}`;
    picture.append(drawn("text", { class: "axis", x, y: 14, "text-anchor": at === now ? "end" : "middle" }, said));
  }
}

function drawLife(picture, life, top, { now, from, place, left }) {
  const name = named(life);
  const short = name.length > 22 ? name.slice(0, 21) + "…" : name;
  picture.append(drawn("text", { x: 8, y: top + 14 }, `${life.task} ${short}`));
  const end = life.ended_ms ?? now;
  life.spans.forEach((span, index) => {
    const until = life.spans[index + 1]?.from_ms ?? end;
    if (until < from) return;
    const [x, right] = [place(span.from_ms), place(until)];
    const where = span.device == null ? "" : ` on GPU ${span.device}`;
    const name = life.refused && span.state === "waiting" ? "refused" : span.state;
    const piece = drawn("rect", {
      class: name + (life.ended_ms == null ? "" : " ended"),
      x, y: top + 2, width: Math.max(2, right - x), height: LANE - 5, rx: 2,
    });
    const why = life.refused ? `: ${life.refused}` : "";
    piece.append(drawn("title", {}, `${name}${where} for ${time(until - span.from_ms)}${why}`));
    picture.append(piece);
    if (right - x > 48 && span.device != null) {
      picture.append(drawn("text", { x: Math.max(x, left) + 5, y: top + 14, class: `on on-${name}` }, `GPU ${span.device}`));
    }
  });
}

function show(snapshot) {
  paging.see(snapshot);
  showDaemon(snapshot);
  showDevices(snapshot);
  showTasks(snapshot);
  showTimeline(snapshot);
}

function complain(why) {
  byId("trouble").hidden = false;
  byId("trouble").textContent = `The daemon does not answer (${why}). What is below is old; it is asked again.`;
}

async function look() {
  try {
    const answer = await fetch("/api/snapshot", { signal: AbortSignal.timeout(GIVE_UP_MS) });
    if (!answer.ok) throw new Error((await answer.text()).trim());
    show(await answer.json());
    byId("trouble").hidden = true;
    document.body.dataset.shown = "yes";
  } catch (error) {
    complain(error.message);
  }
  // One after the other: a slow daemon is not asked faster than it answers.
  setTimeout(look, ASK_EVERY_MS);
}

look();
