// Charts of an emulated experiment. Input: the JSON in #data (crates/report/src/lab/data.rs). Needs charts.js.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { RATES, SPANS, SHARES, COLOURS, shares, losses, colour, track, hasAny, unitFor, number, axes, legend, place, logRange } = shared;
  const SECONDS = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]];
  const SIZES = [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]];
  const PACKETS = [[1, "packets"]], PLAIN = [[1, ""]];
  const UNITS = { "b/s": RATES, s: SECONDS, B: SIZES, 1: SHARES, "": PLAIN };
  // Number of link directions that are shown initially.
  const BUSIEST = 12;
  const CAUSES = { "queue full": "t1", CoDel: "t4", loss: "t0", listed: "t2", outage: "t7", MTU: "t3", emulator: "loss" };
  const QUANTILES = [["p50", "median", [2, 3]], ["p95", "95 %", undefined], ["max", "largest", [7, 4]]];

  const state = { run: data.runs[0], links: new Set(), quantiles: new Set(), logCompletion: false, logSweep: data.plot && data.plot.is_log };
  let live = [];

  const byId = (id) => document.getElementById(id);
  function element(tag, className, text) {
    const e = document.createElement(tag);
    if (className) e.className = className;
    if (text !== undefined) e.textContent = text;
    return e;
  }

  // Beyond the colours of the style sheet: hues that are far from their neighbours.
  function hue(i) {
    if (i < COLOURS) return track(i);
    const isDark = matchMedia("(prefers-color-scheme: dark)").matches && !document.documentElement.classList.contains("print");
    return `hsl(${Math.round((i * 137.5) % 360)} 60% ${isDark ? 68 : 40}%)`;
  }

  function chart(id, specs, units, yName, options) {
    const o = options || {};
    const drawn = specs.filter((s) => s.t.length);
    byId(id).classList.toggle("empty", !drawn.length);
    if (!drawn.length) return;
    // A curve that is zero throughout is replaced by a sentence.
    const isFlat = o.zero && drawn.every((s) => s.v.every((v) => !v));
    byId(id).querySelector(".canvas").textContent = isFlat ? o.zero : "";
    byId(id).classList.toggle("flat", isFlat);
    if (isFlat) return;
    const marks = shared.marks(state.run.marks);
    live.push(shared.timeChart(id, drawn, units, yName, {
      endS: state.run.end_s, xName: "time since the start of the run (s)", height: o.height || 220, isLog: o.isLog, range: o.range,
      hooks: { init: [marks.init], draw: [marks.draw, ...(o.draw || [])] },
    }));
  }

  const at = (series) => state.run.times[series.t];

  function flows() {
    const run = state.run;
    chart("throughput", run.flows.map((f, i) => ({ label: f.label, colour: hue(i), width: 2, t: at(f), v: f.bps })), RATES, "goodput");
    const lossy = run.links.map((l, i) => [l, i]).filter(([l]) => l.lost.length).slice(0, BUSIEST);
    chart("losses", lossy.map(([l, i]) => ({ label: l.label, colour: hue(i), t: at(l), v: l.lost })), SHARES, "lost", { range: losses });
    const rtt = [], block = [], window = [];
    run.flows.forEach((f, i) => {
      if (hasAny(f.cwnd_bytes)) window.push({ label: f.label, colour: hue(i), width: 2, t: at(f), v: f.cwnd_bytes });
      if (hasAny(f.srtt_ns)) rtt.push({ label: f.label, colour: hue(i), width: 2, t: at(f), v: f.srtt_ns });
      if (!hasAny(f.block_p50_ns)) return;
      block.push({ label: f.label + ", median", colour: hue(i), width: 2, t: at(f), v: f.block_p50_ns });
      block.push({ label: f.label + ", 95 %", colour: hue(i), dash: [7, 4], t: at(f), v: f.block_p95_ns });
    });
    chart("window", window, SIZES, "window");
    chart("rtt", rtt, SPANS, "round trip");
    chart("block-rtt", block, SPANS, "block round trip");
  }

  function mice() {
    const run = state.run;
    const colourOf = (i) => hue(run.flows.length + i);
    const specs = run.mice.map((m, i) => ({ label: m.label, colour: colourOf(i), isPoints: true, t: m.start_s, v: m.completion_ns }));
    chart("completion", specs, SPANS, "completion", { isLog: state.logCompletion, draw: [(u) => {
      const { ctx, bbox } = u, h = 9 * uPlot.pxRatio;
      ctx.save();
      run.mice.forEach((m, i) => {
        ctx.fillStyle = colourOf(i);
        for (const s of m.incomplete_s) {
          const x = u.valToPos(s, "x", true);
          if (x >= bbox.left && x <= bbox.left + bbox.width) ctx.fillRect(x - 1, bbox.top + bbox.height - h, 2, h);
        }
      });
      ctx.restore();
    }] });
  }

  const shown = () => state.run.links.map((l, i) => [l, i]).filter(([l]) => state.links.has(l.label));

  function links() {
    const wait = [], queue = [];
    for (const [l, i] of shown()) for (const [key, name, dash] of QUANTILES) {
      if (!state.quantiles.has(key)) continue;
      const line = { label: l.label + (state.quantiles.size > 1 ? ", " + name : ""), colour: hue(i), dash: state.quantiles.size > 1 ? dash : undefined, width: key === "p95" ? 2 : 1.4, t: at(l) };
      if (hasAny(l["wait_" + key + "_ns"])) wait.push(Object.assign({}, line, { v: l["wait_" + key + "_ns"] }));
      queue.push(Object.assign({}, line, { v: l["queue_" + key + "_bytes"] }));
    }
    chart("waiting", wait, SPANS, "waiting time", { zero: "The selected quantiles of the waiting time are zero." });
    chart("queue", queue, SIZES, "queued", { zero: "The selected quantiles of the queue are zero; short queues appear in the largest one." });
    drops();
    const share = shown().filter(([l]) => hasAny(l.utilisation));
    const specs = share.map(([l, i]) => ({ label: l.label, colour: hue(i), t: at(l), v: l.utilisation }));
    chart("utilisation", specs, SHARES, "used", { range: shares });
  }

  // Bars stacked by cause; the legend distinguishes the links.
  function drops() {
    const sums = new Map(), times = new Set();
    for (const [l] of shown()) for (const d of l.drops) {
      if (!sums.has(d.cause)) sums.set(d.cause, new Map());
      const cause = sums.get(d.cause);
      d.packets.forEach((n, k) => {
        const t = at(l)[k], entry = cause.get(t) || { n: 0, of: [] };
        times.add(t);
        entry.n += n;
        if (n) entry.of.push(l.label + " " + n);
        cause.set(t, entry);
      });
    }
    const x = [...times].sort((a, b) => a - b);
    const below = x.map(() => 0);
    const specs = [...sums].map(([name, entries]) => ({
      label: name, colour: colour(CAUSES[name] || "t7"), fill: colour(CAUSES[name] || "t7"), width: 0.5, t: x,
      v: x.map((t, k) => (below[k] += entries.has(t) ? entries.get(t).n : 0)),
      paths: uPlot.paths.bars({ size: [0.8, 60] }),
      text: (k) => (entries.has(x[k]) ? [entries.get(x[k]).n, ...entries.get(x[k]).of.map((s) => "(" + s + ")")].join(" ") : "–"),
    }));
    // The highest sum first, so that the lower ones are drawn over it.
    chart("drops", specs.reverse(), PACKETS, "dropped");
  }

  function engine() {
    const e = state.run.engine;
    const t = e ? at(e) : [];
    const late = !e ? [] : [
      { label: "lateness, 99 %", colour: hue(0), width: 2, t, v: e.lateness_p99_ns },
      { label: "lateness, largest", colour: hue(0), dash: [7, 4], t, v: e.lateness_max_ns },
      { label: "wait in the device, 99 % (upper bound)", colour: hue(1), dash: [2, 3], t, v: e.arrival_p99_ns },
    ].filter((s) => hasAny(s.v));
    chart("lateness", late, SPANS, "late");
    const cpus = !e ? [] : e.cpus.map((c, i) => ({ label: c.label, colour: hue(i), t, v: c.share }));
    chart("cpu", cpus, SHARES, "busy", { range: shares });
  }

  // Means of the points with their confidence intervals, formulas as thin curves.
  function sweep() {
    const plot = data.plot;
    if (!plot) return;
    const isLog = state.logSweep, isText = plot.x_texts.length > 0;
    const xs = plot.curves.flatMap((c) => c.points.map((p) => p.x));
    const [xFactor, xUnit] = unitFor(UNITS[plot.x_unit], [{ v: xs }]);
    const highs = plot.curves.flatMap((c) => c.points.map((p) => p.y));
    const [yFactor, yUnit] = unitFor(UNITS[plot.y_unit], [{ v: highs }]);
    const fits = (x, y) => !isLog || ((isText || x > 0) && y > 0);
    const lost = plot.curves.flatMap((c) => c.points.filter((p) => !fits(p.x, p.y)).map((p) => c.label + " at " + p.x / xFactor));
    const box = byId("sweep-left-out");
    box.classList.toggle("empty", !lost.length);
    box.textContent = "A logarithmic axis cannot show zero; left out: " + lost.join(", ") + ".";
    const curves = plot.curves.map((c, i) => {
      const points = c.points.filter((p) => fits(p.x, p.y));
      return { label: c.label, points, colour: hue(i), x: points.map((p) => p.x / xFactor), y: points.map((p) => p.y / yFactor) };
    });
    const models = plot.models.map((m) => {
      const keep = m.x.map((x, i) => [x, m.y[i]]).filter(([x, y]) => y != null && fits(x, y)).sort((a, b) => a[0] - b[0]);
      return { label: m.label, x: keep.map((p) => p[0] / xFactor), y: keep.map((p) => p[1] / yFactor) };
    });
    sweepChart({ plot, isLog, isText, xUnit, yUnit, yFactor, curves, models });
  }

  function sweepChart(s) {
    const { curves, models, yFactor } = s;
    const aligned = uPlot.join([...curves, ...models].map((c) => [c.x, c.y]));
    const find = (c, x) => c.points[c.x.indexOf(x)];
    const value = (c) => (u, v, k, i) => {
      const p = i != null && find(c, aligned[0][i]);
      if (!p) return "–";
      const spread = p.half_width === null ? "" : " ± " + number(p.half_width / yFactor);
      return number(p.y / yFactor) + spread + " " + s.yUnit + " (" + p.runs + (p.runs === 1 ? " run)" : " runs)");
    };
    const series = [
      ...curves.map((c) => ({ label: c.label, stroke: c.colour, width: 2, spanGaps: true, points: { show: true, size: 8, fill: c.colour }, value: value(c),
        // Between two names there is nothing to interpolate.
        paths: s.isText ? () => null : undefined })),
      ...models.map((m, i) => ({
        label: m.label, stroke: colour("muted"), dash: [[7, 4], [2, 3], [10, 3, 2, 3]][i % 3], width: 1.4, spanGaps: true, points: { show: false },
        value: (u, v) => (v == null ? "–" : number(v) + " " + s.yUnit),
      })),
    ];
    const name = (text, unit) => text + (unit ? " (" + unit + ")" : "");
    const theAxes = axes(name(s.plot.x_key, s.xUnit), name(s.plot.y_name, s.yUnit), null);
    const short = (u, splits) => splits.map((v) => (v == null ? "" : String(+v.toPrecision(3))));
    if (s.isLog) theAxes.forEach((a) => { a.values = short; });
    if (s.isText) {
      theAxes[0].splits = () => s.plot.x_texts.map((_, i) => i);
      theAxes[0].values = (u, splits) => splits.map((v) => s.plot.x_texts[v]);
      // Places between two texts mean nothing; uPlot would drop close ones.
      theAxes[0].filter = (u, splits) => splits;
    }
    const [x, y] = sweepRanges(s);
    const xScale = { time: false, distr: s.isLog && !s.isText ? 3 : 1, range: (u, min, max) => (min === aligned[0][0] && max === aligned[0][aligned[0].length - 1] ? x : [min, max]) };
    place("sweep", {
      height: 340, series: [{ label: s.plot.x_name, value: (u, v) => (v == null ? "–" : s.isText ? s.plot.x_texts[v] : String(+v.toPrecision(6)) + " " + s.xUnit) }, ...series],
      scales: { x: xScale, y: { distr: s.isLog ? 3 : 1, range: () => y } }, axes: theAxes, legend: legend(series),
      cursor: { y: false, drag: { x: true, y: false } }, hooks: { draw: [(u) => errorBars(u, curves, yFactor)] },
    }, aligned);
  }

  // By what was measured; a formula that is far from it leaves the picture.
  function sweepRanges(s) {
    const all = s.curves.flatMap((c) => c.points), from = all.length ? s.curves : s.models;
    const xs = from.flatMap((c) => c.x), ys = all.length
      ? all.flatMap((p) => [p.y - (p.half_width || 0), p.y, p.y + (p.half_width || 0)]).map((v) => v / s.yFactor)
      : s.models.flatMap((m) => m.y);
    const near = s.models.flatMap((m) => m.y).filter((v) => v <= Math.max(...ys) * 3 && v * 3 >= Math.min(...ys));
    ys.push(...near);
    const x0 = Math.min(...xs), x1 = Math.max(...xs), y1 = Math.max(...ys), positive = ys.filter((v) => v > 0);
    const air = (x1 - x0 || Math.abs(x1) || 1) * 0.06;
    const x = s.isLog && !s.isText ? [x0 / 1.3, x1 * 1.3] : s.isText ? [-0.4, s.plot.x_texts.length - 0.6] : [x0 - air, x1 + air];
    return [x, s.isLog ? logRange(Math.min(...positive), Math.max(...positive)) : [0, y1 > 0 ? y1 * 1.08 : 1]];
  }

  function errorBars(u, curves, yFactor) {
    const { ctx, bbox } = u, cap = 5 * uPlot.pxRatio;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.lineWidth = 1.5 * uPlot.pxRatio;
    curves.forEach((c, k) => {
      if (!u.series[k + 1].show) return;
      ctx.strokeStyle = c.colour;
      c.points.forEach((p, i) => {
        if (p.half_width === null) return;
        const x = u.valToPos(c.x[i], "x", true), low = (p.y - p.half_width) / yFactor;
        // A logarithmic axis has no place for what reaches zero: the bar ends at the foot of the chart.
        const foot = u.scales.y.distr === 3 && low <= 0 ? bbox.top + bbox.height : u.valToPos(low, "y", true);
        const top = u.valToPos((p.y + p.half_width) / yFactor, "y", true);
        ctx.beginPath();
        ctx.moveTo(x - cap, top); ctx.lineTo(x + cap, top);
        ctx.moveTo(x, top); ctx.lineTo(x, foot);
        ctx.moveTo(x - cap, foot); ctx.lineTo(x + cap, foot);
        ctx.stroke();
      });
    });
    ctx.restore();
  }

  // A zoomed time span is kept when a box changes.
  function zoom() {
    const u = live[0];
    return u && state.drawn === state.run && (u.scales.x.min > 0 || u.scales.x.max < state.run.end_s) ? { min: u.scales.x.min, max: u.scales.x.max } : null;
  }

  function build() {
    const part = zoom();
    shared.clear();
    live = [];
    sweep();
    if (!state.run) return;
    flows();
    mice();
    links();
    engine();
    state.drawn = state.run;
    if (part) for (const u of live) u.setScale("x", part);
  }

  function checkbox(parent, text, isOn, change) {
    const label = element("label"), box = element("input");
    box.type = "checkbox";
    box.checked = isOn;
    box.addEventListener("change", () => { change(box.checked); build(); });
    label.append(box, " ", text);
    parent.append(label);
    return box;
  }

  function quantileBoxes() {
    for (const id of ["waiting", "queue"]) {
      const controls = byId(id).querySelector(".controls");
      controls.replaceChildren();
      for (const [key, name] of QUANTILES) {
        checkbox(controls, name, state.quantiles.has(key), (on) => {
          if (on) state.quantiles.add(key); else state.quantiles.delete(key);
          quantileBoxes();
        });
      }
    }
  }

  function linkBoxes() {
    const box = byId("links"), list = box.querySelector(".controls"), all = state.run.links;
    box.classList.toggle("empty", all.length < 2);
    box.querySelector("summary").textContent = `Link directions in the charts below: ${shown().length} of ${all.length} (busiest first)`;
    list.replaceChildren();
    const choose = (text, labels) => {
      const b = element("button", "", text);
      b.addEventListener("click", () => { state.links = new Set(labels()); linkBoxes(); build(); });
      list.append(b);
    };
    choose("busiest " + Math.min(BUSIEST, all.length), () => all.slice(0, BUSIEST).map((l) => l.label));
    choose("all", () => all.map((l) => l.label));
    choose("none", () => []);
    choose("those with drops", () => all.filter((l) => l.drops.length).map((l) => l.label));
    const names = element("span", "names");
    list.append(names);
    all.forEach((l, i) => {
      const swatch = element("i", "swatch");
      swatch.style.background = hue(i);
      const name = element("span");
      name.append(swatch, l.label);
      checkbox(names, name, state.links.has(l.label), (on) => {
        if (on) state.links.add(l.label); else state.links.delete(l.label);
        linkBoxes();
      });
    });
  }

  function select(run) {
    state.run = run;
    state.links = new Set(run.links.slice(0, BUSIEST).map((l) => l.label));
    // Three quantiles of every link only where there are few.
    state.quantiles = new Set(run.links.length > 2 ? ["p95"] : ["p50", "p95", "max"]);
    for (const e of document.querySelectorAll(".of-run")) e.hidden = e.dataset.run !== String(run.run);
    const notes = byId("run-notes");
    notes.replaceChildren(...run.notes.map((n) => element("p", "hint", n)));
    if (run.state !== "valid") {
      const text = "This run is " + run.state + (run.reasons.length ? ": " + run.reasons.join("; ") : "") + ".";
      notes.prepend(element("p", run.state === "invalid" ? "warning invalid" : "warning", text));
    }
    linkBoxes();
    quantileBoxes();
  }

  if (data.plot) checkbox(byId("sweep").querySelector(".controls"), "logarithmic", state.logSweep, (on) => { state.logSweep = on; });
  if (data.runs.length) {
    checkbox(byId("completion").querySelector(".controls"), "logarithmic", false, (on) => { state.logCompletion = on; });
    if (data.runs.length > 1) {
      const label = element("label", "", "Shown: "), list = element("select");
      data.runs.forEach((r, i) => {
        const o = element("option", "", r.label + " · " + r.state);
        o.value = i;
        list.append(o);
      });
      list.addEventListener("change", () => { select(data.runs[list.value]); build(); });
      label.append(list);
      byId("run-controls").append(label);
    }
    select(data.runs[0]);
  }
  build();
  shared.watch(build, () => 690);
})();
