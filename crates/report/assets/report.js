// Charts of a longhaul report. Input: the JSON in #data (crates/report/src/html/data.rs). Needs uPlot; no network.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const tracks = data.tracks;
  const COLOURS = 8;
  const state = { perStream: false, logDelay: false };
  let charts = [];

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  const track = (i) => colour("t" + (i % COLOURS));
  const prefix = (t) => (tracks.length > 1 ? t.label + ": " : "");
  const hasAny = (values) => values.some((v) => v !== null);

  // The largest unit in which the largest value is at least 1.
  const RATES = [[1e9, "Gb/s"], [1e6, "Mb/s"], [1e3, "kb/s"], [1, "b/s"]];
  const SPANS = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];
  function unitFor(units, specs) {
    let max = 0;
    for (const s of specs) for (const v of s.v) if (v !== null && Math.abs(v) > max) max = Math.abs(v);
    return units.find((u) => max >= u[0]) || units[units.length - 1];
  }

  const number = (v) => (v === 0 ? "0" : Math.abs(v) < 10 ? v.toPrecision(3) : v.toFixed(1));

  function span(ns) {
    const [factor, unit] = SPANS.find((u) => ns >= u[0]) || SPANS[SPANS.length - 1];
    return number(ns / factor) + " " + unit;
  }

  function axes(xLabel, yLabel, yValues) {
    const common = {
      stroke: () => colour("muted"), grid: { stroke: () => colour("grid"), width: 1 },
      ticks: { stroke: () => colour("grid"), width: 1 }, font: "12px system-ui, sans-serif",
      labelFont: "12px system-ui, sans-serif", labelSize: 18,
    };
    const y = Object.assign({}, common, { label: yLabel, size: 58, labelGap: 2 });
    // Plain numbers: grouping marks differ between languages, and a point may mean a thousand.
    const plain = (u, splits) => splits.map((v) => (v == null ? "" : String(+v.toPrecision(6))));
    y.values = yValues || plain;
    return [Object.assign({}, common, { label: xLabel, size: 36, space: 60, values: plain }), y];
  }

  // The sample of a line in the legend: uPlot draws it as the border of a box.
  function legend(series) {
    const style = (dash) => (!dash ? "solid" : dash[0] <= 2 ? "dotted" : "dashed");
    return { markers: { width: 3, dash: (u, i) => style(series[i - 1] && series[i - 1].dash), fill: () => "transparent" } };
  }

  function place(id, options, aligned) {
    const section = document.getElementById(id);
    const box = section.querySelector(".canvas");
    options.width = Math.max(260, box.clientWidth);
    const chart = new uPlot(options, aligned, box);
    charts.push({ chart, box, id });
    return chart;
  }

  // Small ticks at the foot of the chart where the sender retransmitted.
  function retransmitTicks(u) {
    const { ctx, bbox } = u;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    tracks.forEach((t, i) => {
      ctx.fillStyle = track(i);
      t.retransmits.forEach((n, k) => {
        if (!n) return;
        const x = u.valToPos(t.t_s[k], "x", true);
        const h = 9 * uPlot.pxRatio, w = 4 * uPlot.pxRatio, y = bbox.top + bbox.height - i * h;
        ctx.beginPath();
        ctx.moveTo(x, y - h);
        ctx.lineTo(x + w, y);
        ctx.lineTo(x - w, y);
        ctx.fill();
      });
    });
    ctx.restore();
  }

  // specs: {label, colour, dash, width, t, v, show}
  function timeChart(id, specs, units, yName, isLog, hooks) {
    const [factor, unit] = unitFor(units, specs);
    const scaled = specs.map((s) => s.v.map((v) => (v === null || (isLog && v <= 0) ? null : v / factor)));
    const aligned = uPlot.join(specs.map((s, i) => [s.t, scaled[i]]));
    const series = specs.map((s) => ({
      label: s.label, stroke: s.colour, dash: s.dash, width: s.width || 1.6, show: s.show !== false,
      points: { show: s.t.length < 2 }, value: (u, v) => (v == null ? "–" : number(v) + " " + unit),
    }));
    const yScale = isLog ? { distr: 3, range: (u, min, max) => logRange(min, max) } : { range: (u, min, max) => yRange(min, max) };
    // From the begin of the load to its end, not from the middle of the first interval to that of the last.
    const first = aligned[0][0], last = aligned[0][aligned[0].length - 1];
    const xRange = (u, min, max) => [min <= first ? 0 : min, max >= last ? Math.max(data.end_s, last) : max];
    const logLabels = (u, splits) => splits.map((v) => (v == null ? "" : number(v).replace(/\.0+$/, "")));
    place(id, {
      height: 280, series: [{ label: "time", value: (u, v) => (v == null ? "–" : v.toFixed(2) + " s") }, ...series],
      scales: { x: { time: false, range: xRange }, y: yScale }, legend: legend(series),
      axes: axes("time since the load began (s)", yName + " (" + unit + ")", isLog ? logLabels : null),
      cursor: { y: false, sync: { key: "time", setSeries: false }, drag: { x: true, y: false } },
      hooks: Object.assign({}, hooks),
    }, aligned);
  }

  // From zero, so that heights compare; below zero only where a value is (a one-way delay within its bound).
  function yRange(min, max) {
    if (min === null || max === null || (min === 0 && max === 0)) return [0, 1];
    return [Math.min(0, min * 1.05), max > 0 ? max * 1.06 : 0];
  }

  // Outwards to 1, 2 or 5 times a power of ten; uPlot itself would go to the next power of ten.
  function logRange(min, max) {
    if (!(min > 0) || !(max > 0)) return [1, 10];
    const steps = (v) => [0.5, 1, 2, 5, 10].map((s) => s * 10 ** Math.floor(Math.log10(v)));
    const low = steps(min).filter((s) => s <= min * 0.999).pop(), high = steps(max).find((s) => s >= max * 1.001);
    return [low, high];
  }

  function throughput() {
    const specs = [];
    tracks.forEach((t, i) => {
      if (!t.t_s.length) return;
      specs.push({ label: prefix(t) + "goodput", colour: track(i), t: t.t_s, v: t.goodput_bps, width: 2 });
      if (!state.perStream) return;
      t.streams.forEach((s, k) => specs.push({
        label: prefix(t) + "stream " + s.stream, colour: track(tracks.length + i * 3 + k), dash: k % 2 ? [6, 3] : [2, 3],
        width: 1.2, t: t.t_s, v: s.bps,
      }));
    });
    if (specs.length) timeChart("throughput", specs, RATES, "goodput", false, { draw: [retransmitTicks] });
    return specs.length > 0;
  }

  function delay() {
    const specs = [];
    const single = tracks.length === 1;
    const add = (t, i, label, values, hue, dash, more) => {
      if (!t.t_s.length || !hasAny(values)) return;
      specs.push(Object.assign({ label: prefix(t) + label, colour: single ? track(hue) : track(i), dash, t: t.t_s, v: values }, more));
    };
    tracks.forEach((t, i) => {
      const isTcp = hasAny(t.rtt_p50_ns) || hasAny(t.srtt_ns);
      add(t, i, "block RTT median", t.rtt_p50_ns, 0, undefined, { width: 2 });
      add(t, i, "block RTT 95 %", t.rtt_p95_ns, 1, [7, 4]);
      add(t, i, "kernel srtt", t.srtt_ns, 2, [2, 3]);
      // Beside round trips one-way delays are on demand, and with several tracks there is no room for them.
      if (!isTcp || single) {
        const bound = t.one_way_bound_ns === null ? "" : " ± " + span(t.one_way_bound_ns);
        add(t, i, "one-way median" + bound, t.one_way_p50_ns, isTcp ? 3 : 0, isTcp ? [10, 3, 2, 3] : undefined, { show: !isTcp });
        add(t, i, "one-way 95 %" + bound, t.one_way_p95_ns, isTcp ? 6 : 1, [7, 4], { show: !isTcp });
      }
      const isKnown = tracks.slice(0, i).some((o) => o.baseline_ns === t.baseline_ns);
      if (t.baseline_ns !== null && isTcp && !isKnown) {
        add(t, i, "idle RTT", t.t_s.map(() => t.baseline_ns), 7, [1, 4], { width: 1.3 });
      }
    });
    if (specs.length) timeChart("delay", specs, SPANS, "delay", state.logDelay);
    return specs.length > 0;
  }

  function histogram(d) {
    const x = d.edges_ms;
    const series = d.tracks.map((t) => ({
      label: t.label, stroke: track(t.track), fill: track(t.track) + "40", width: 1.4, points: { show: false },
      paths: uPlot.paths.stepped({ align: 1 }), value: (u, v) => (v == null ? "–" : number(v) + " %"),
    }));
    // The last step needs a right edge.
    const values = d.tracks.map((t) => [...t.percent, t.percent[t.percent.length - 1]]);
    distribution("histogram", d, x, series, values, "share of blocks (%)", (u, min, max) => [0, max > 0 ? max * 1.06 : 1]);
  }

  function cdf(d) {
    const series = d.tracks.map((t) => ({
      label: t.label, stroke: track(t.track), width: 2, points: { show: false },
      value: (u, v) => (v == null ? "–" : v.toFixed(2) + " %"),
    }));
    distribution("cdf", d, d.cdf_ms, series, d.tracks.map((t) => t.cdf_percent), "blocks not slower (%)", () => [0, 100]);
  }

  function distribution(id, d, x, series, values, yName, range) {
    const xAxes = axes("block RTT (ms)", yName, null);
    if (d.is_log) xAxes[0].values = (u, splits) => splits.map((v) => (v == null ? "" : String(+v.toPrecision(3))));
    place(id, {
      height: 240, series: [{ label: "RTT", value: (u, v) => (v == null ? "–" : number(v) + " ms") }, ...series],
      scales: { x: { time: false, distr: d.is_log ? 3 : 1, range: (u, min, max) => [min, max] }, y: { range } }, legend: legend(series),
      axes: xAxes, cursor: { y: false, sync: { key: "rtt", setSeries: false }, drag: { x: true, y: false } },
    }, [x, ...values]);
  }

  function hide(id) { document.getElementById(id).classList.add("empty"); }

  function build() {
    for (const c of charts) c.chart.destroy();
    charts = [];
    if (!throughput()) hide("throughput");
    if (!delay()) hide("delay");
    if (data.distribution) { histogram(data.distribution); cdf(data.distribution); } else { hide("histogram"); hide("cdf"); }
  }

  function checkbox(id, text, key) {
    const label = document.createElement("label"), box = document.createElement("input");
    box.type = "checkbox";
    box.addEventListener("change", () => { state[key] = box.checked; build(); });
    label.append(box, " " + text);
    document.getElementById(id).querySelector(".controls").append(label);
  }

  if (tracks.some((t) => t.streams.length)) checkbox("throughput", "each stream", "perStream");
  checkbox("delay", "logarithmic", "logDelay");
  build();

  let pending = 0;
  new ResizeObserver(() => {
    cancelAnimationFrame(pending);
    pending = requestAnimationFrame(() => {
      for (const c of charts) c.chart.setSize({ width: Math.max(260, c.box.clientWidth), height: c.chart.height });
    });
  }).observe(document.body);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", build);
  // Paper is white whatever the screen is, and narrower.
  addEventListener("beforeprint", () => {
    document.documentElement.classList.add("print");
    build();
    for (const c of charts) c.chart.setSize({ width: Math.min(c.chart.width, c.id === "histogram" || c.id === "cdf" ? 330 : 690), height: 220 });
  });
  addEventListener("afterprint", () => { document.documentElement.classList.remove("print"); build(); });
})();
