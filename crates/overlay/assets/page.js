"use strict";
const history_s = 120, every_ms = 1000;
const byId = (id) => document.getElementById(id);
const colours = ["#0b6bcb", "#c4500b", "#1a7f37", "#8250df", "#bf8700", "#cf222e", "#0598bc", "#6e7781"];
const past = new Map(); // name: [{ at, carried, to, from }]

const make = (name, attributes, text) => {
  const e = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
  if (text !== undefined) e.textContent = text;
  return e;
};
const rate = (bps) => {
  for (const [n, u] of [[1e9, "Gb/s"], [1e6, "Mb/s"], [1e3, "kb/s"]]) if (bps >= 0.9995 * n) return `${(bps / n).toPrecision(3)} ${u}`;
  return `${Math.round(bps)} b/s`;
};
const known = (value, shown) => (value === null || value === undefined ? "–" : shown(value));
const ms = (us) => known(us, (x) => `${(x / 1000).toFixed(x < 10000 ? 2 : 1)} ms`);
const percent = (share) => `${(100 * share).toFixed(share < 0.001 ? 3 : 2)} %`;
const hex = (number) => number.toString(16).padStart(8, "0");

function map(status) {
  const all = [{ member: status.member, name: "this member" }, ...status.members];
  const place = new Map(all.map((m, i) => {
    const angle = Math.PI + (2 * Math.PI * i) / all.length;
    return [m.member, [320 + 240 * Math.cos(angle), 205 + 150 * Math.sin(angle)]];
  }));
  const names = new Map(all.map((m) => [m.name, m.member]));
  const used = new Set();
  for (const m of status.members) for (const way of m.routes) {
    let from = status.member;
    for (const to of [...way.relays.map((r) => names.get(r)), m.member]) {
      used.add(`${from} ${to}`);
      from = to;
    }
  }
  const lines = new Map();
  const add = (a, b, rtt, loss, up) => {
    const key = a < b ? `${a} ${b}` : `${b} ${a}`;
    const old = lines.get(key);
    lines.set(key, { a, b, rtt, loss: Math.max(loss, old ? old.loss : 0), up: up || (old && old.up) });
  };
  for (const m of status.members) if (m.link && (m.link.up || m.link.rx_age_s !== null)) add(status.member, m.member, m.link.rtt_us, Math.max(m.link.tx_loss, m.link.rx_loss), m.link.up);
  for (const c of status.link_state) add(c.from, c.to, c.metrics.rtt_us, c.metrics.loss, true);
  const svg = byId("map");
  svg.replaceChildren();
  for (const { a, b, rtt, loss, up } of lines.values()) {
    const [p, q] = [place.get(a), place.get(b)];
    if (!p || !q) continue;
    const isUsed = used.has(`${a} ${b}`) || used.has(`${b} ${a}`);
    svg.append(make("line", { x1: p[0], y1: p[1], x2: q[0], y2: q[1], class: `link${isUsed ? " used" : ""}${up ? "" : " down"}` }));
    svg.append(make("text", { x: p[0] * 0.45 + q[0] * 0.55, y: p[1] * 0.45 + q[1] * 0.55 - 5, "text-anchor": "middle", class: "soft" }, up ? `${ms(rtt)}, ${percent(loss)}` : "down"));
  }
  for (const m of all) {
    const [x, y] = place.get(m.member);
    svg.append(make("circle", { cx: x, cy: y, r: 11, class: `member${m.member === status.member ? " own" : ""}` }));
    svg.append(make("text", { x, y: y + (y < 205 ? -18 : 28), "text-anchor": "middle" }, m.name));
  }
}

// A row for each entry; a cell is a text, or a text and whether it is bad.
function fill(table, rows) {
  const body = byId(table).tBodies[0];
  body.replaceChildren();
  for (const cells of rows) {
    const row = body.insertRow();
    for (const [text, bad] of cells.map((c) => [c].flat())) {
      const cell = row.insertCell();
      cell.textContent = text;
      if (bad) cell.className = "bad";
    }
  }
}

const lost = (share) => [known(share, percent), share > 0.01];

function ways(status) {
  fill("routes", status.members.flatMap((m) => (m.routes.length ? m.routes.map((way) => [
    m.name, way.relays.length ? `via ${way.relays.join(", ")}` : "direct", percent(way.weight), known(way.predicted_bps, rate),
    rate(way.throughput_bps), ms(way.rtt_us), lost(way.loss),
  ]) : [[m.name, ["none", true], "–", "–", "–", "–", "–"]])));
  fill("links", status.members.filter((m) => m.link).map(({ name, link }) => [
    name, rate(speed(name, "to")), rate(speed(name, "from")), link.up ? ms(link.rtt_us) : ["down", true], ms(link.queueing_delay_us),
    known(link.tx_capacity_bps, rate), lost(link.tx_loss), lost(link.rx_loss),
  ]));
}

function remember(status) {
  const at = Date.now() / 1000;
  for (const m of status.members) {
    const list = past.get(m.name) || [];
    const carried = m.routes.reduce((sum, way) => sum + way.throughput_bps, 0);
    list.push({ at, carried, to: m.link ? m.link.tx_bytes : 0, from: m.link ? m.link.rx_bytes : 0 });
    past.set(m.name, list);
  }
  for (const [name, list] of past) {
    while (list.length && list[0].at < at - history_s) list.shift();
    if (!list.length) past.delete(name);
  }
}

// Counters begin anew with the member; a step back is no rate.
const between = (a, b, key) => Math.max(0, (8 * (b[key] - a[key])) / Math.max(0.1, b.at - a.at));
const speed = (name, key) => {
  const list = past.get(name) || [];
  return list.length > 1 ? between(list[list.length - 2], list[list.length - 1], key) : 0;
};

function rates() {
  const svg = byId("rates"), now = Date.now() / 1000;
  svg.replaceChildren();
  const curves = [...past].map(([name, list]) => [name, list.map((p) => [p.at, p.carried])]);
  const most = Math.max(1000, ...curves.flatMap(([, c]) => c.map(([, v]) => v)));
  svg.append(make("text", { x: 6, y: 16, class: "soft" }, rate(most)));
  curves.forEach(([, curve], i) => {
    const points = curve.map(([at, v]) => `${640 - (640 * (now - at)) / history_s},${150 - (140 * v) / most}`).join(" ");
    svg.append(make("polyline", { points, fill: "none", stroke: colours[i % colours.length], "stroke-width": 1.8 }));
  });
  byId("rates-legend").replaceChildren(...curves.map(([name], i) => {
    const s = document.createElement("span");
    s.textContent = `■ ${name}  `;
    s.style.color = colours[i % colours.length];
    return s;
  }));
}

function events(list) {
  byId("events").replaceChildren(...list.slice(-200).reverse().map((e) => {
    const item = document.createElement("li");
    item.textContent = `${new Date(1000 * e.utc_s).toISOString().slice(11, 23)}  ${e.text}`;
    return item;
  }));
}

const fine = new Set(["packets_in", "bytes_in", "packets_out", "bytes_out", "frames_sealed", "frames_opened", "frames_relayed", "bytes_relayed"]);

async function look() {
  try {
    const [status, happened] = await Promise.all(["status.json", "events.json"].map((u) => fetch(u).then(async (r) => {
      if (!r.ok) throw new Error(await r.text());
      return r.json();
    })));
    byId("own").textContent = hex(status.member);
    const up = status.members.filter((m) => m.link && m.link.up).length;
    byId("summary").textContent = `${up} of ${status.members.length} direct links up, ${status.flows.active} active flow${status.flows.active === 1 ? "" : "s"} (${status.flows.elephants} elephant${status.flows.elephants === 1 ? "" : "s"}), ${status.tunnel.up ? "" : "the tunnel device is down, "}running ${Math.round(status.running_s)} s`;
    remember(status);
    map(status);
    ways(status);
    rates();
    events(happened.events);
    const odd = Object.entries(status.counters).filter(([k, v]) => v && !fine.has(k)).map(([k, v]) => `${k.replaceAll("_", " ")} ${v}`);
    byId("counters").textContent = odd.length ? odd.join(", ") : "nothing";
  } catch (e) {
    byId("summary").textContent = `the member does not answer (${e.message})`;
  }
  setTimeout(look, every_ms);
}
look();
