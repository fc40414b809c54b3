// Charts of a test. Input: the JSON in #data (crates/report/src/html/data.rs). Needs charts.js.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const tracks = data.tracks;
  const { RATES, SPANS, colour, track, hasAny, number, span, axes, legend, place } = shared;
  const state = { perStream: false, logDelay: data.is_delay_log };
  const prefix = (t) => (tracks.length > 1 ? t.label + ": " : "");
  const onTime = { endS: data.end_s, xName: "time since the start of the test (s)" };
  const timeChart = (id, specs, units, yName, isLog, hooks) =>
    shared.timeChart(id, specs, units, yName, Object.assign({ isLog, hooks }, onTime));

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
    shared.clear();
    if (!throughput()) hide("throughput");
    if (!delay()) hide("delay");
    if (data.distribution) { histogram(data.distribution); cdf(data.distribution); } else { hide("histogram"); hide("cdf"); }
  }

  function checkbox(id, text, key) {
    const label = document.createElement("label"), box = document.createElement("input");
    box.type = "checkbox";
    box.checked = state[key];
    box.addEventListener("change", () => { state[key] = box.checked; build(); });
    label.append(box, " " + text);
    document.getElementById(id).querySelector(".controls").append(label);
  }

  if (tracks.some((t) => t.streams.length)) checkbox("throughput", "each stream", "perStream");
  checkbox("delay", "logarithmic", "logDelay");
  build();
  shared.watch(build, (id) => (id === "histogram" || id === "cdf" ? 330 : 690));
})();
