// Charts of a history. Input: the JSON in #data (crates/report/src/history/page.rs). Needs charts.js.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { RATES, colour, track, number } = shared;
  const DAY = 86400;

  // 2026-11-21 22:01, of a time in seconds since 1970.
  const utc = (s) => new Date(s * 1000).toISOString().slice(0, 16).replace("T", " ");

  // Up to the largest value; an interval may reach somewhat above it, but does not make the values small.
  function topOf(c) {
    const values = [...c.methods.flatMap((m) => m.v), ...c.expected.v], highs = [...c.methods.flatMap((m) => m.high), ...c.expected.high];
    const largest = Math.max(0, ...values);
    return Math.max(largest * 1.08, Math.min(Math.max(0, ...highs) * 1.03, largest * 1.6)) || 1;
  }

  // Measured values with their intervals as bars; lines where a new level starts.
  function marks(c, factor) {
    return (u) => {
      const { ctx, bbox } = u, ratio = uPlot.pxRatio;
      ctx.save();
      ctx.beginPath();
      ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
      ctx.clip();
      ctx.lineWidth = ratio;
      ctx.strokeStyle = colour("loss");
      ctx.setLineDash([5 * ratio, 4 * ratio]);
      for (const at of c.shifts_s) stroke(ctx, u.valToPos(at, "x", true), bbox.top, bbox.top + bbox.height);
      ctx.setLineDash([]);
      ctx.globalAlpha = 0.55;
      c.methods.forEach((m, i) => {
        if (!u.series[FIRST + i].show) return;
        ctx.strokeStyle = track(i);
        ctx.lineWidth = 1.5 * ratio;
        m.t.forEach((at, k) => stroke(ctx, u.valToPos(at, "x", true), u.valToPos(m.low[k] / factor, "y", true), u.valToPos(m.high[k] / factor, "y", true)));
      });
      ctx.restore();
    };
  }

  function stroke(ctx, x, from, to) {
    ctx.beginPath();
    ctx.moveTo(Math.round(x), from);
    ctx.lineTo(Math.round(x), to);
    ctx.stroke();
  }

  // Series of uPlot: time, expected and both ends of its interval, then the methods.
  const FIRST = 4;

  function draw(c) {
    const specs = [c.expected, ...c.methods];
    const [factor, unit] = shared.unitFor(RATES, specs);
    const scaled = (values) => values.map((v) => v / factor);
    const e = c.expected;
    const aligned = uPlot.join([[e.t, scaled(e.v), scaled(e.low), scaled(e.high)], ...c.methods.map((m) => [m.t, scaled(m.v)])]);
    const text = (s, at) => {
      const k = s.t.indexOf(at);
      if (k < 0) return "–";
      const [v, low, high] = [s.v[k], s.low[k], s.high[k]].map((x) => number(x / factor));
      return `${v} ${unit}` + (low === high ? "" : ` (${low} to ${high})`);
    };
    const legend = (s) => (u, v, k, i) => (i == null ? "–" : text(s, aligned[0][i]));
    const edge = { label: "", class: "edge", stroke: "transparent", width: 0, spanGaps: true, points: { show: false } };
    const series = [
      { label: e.label, stroke: colour("muted"), width: 1.4, dash: [6, 4], spanGaps: true, points: { show: e.t.length < 2 }, value: legend(e) },
      edge, Object.assign({}, edge),
      ...c.methods.map((m, i) => ({ label: m.label, stroke: track(i), paths: () => null, points: { show: true, size: 6, fill: track(i) }, value: legend(m) })),
    ];
    const first = aligned[0][0], last = aligned[0][aligned[0].length - 1], air = last > first ? (last - first) * 0.02 : DAY / 2;
    const top = topOf(c) / factor;
    const axes = shared.axes("UTC", `rate (${unit})`, null);
    Object.assign(axes[0], { space: 110, values: (u, splits, axis, space, step) => splits.map((s) => (step >= DAY ? utc(s).slice(0, 10) : utc(s).slice(5))) });
    shared.place(c.id, {
      height: 260, series: [{ label: "UTC", value: (u, v) => (v == null ? "–" : utc(v)) }, ...series],
      tzDate: (s) => uPlot.tzDate(new Date(s * 1000), "Etc/UTC"),
      bands: [{ series: [3, 2], fill: colour("t5") + "38" }],
      scales: { x: { time: true, range: (u, min, max) => [min <= first ? first - air : min, max >= last ? last + air : max] }, y: { range: () => [0, top] } },
      legend: shared.legend(series), axes, cursor: { y: false, sync: { key: "time", setSeries: false }, drag: { x: true, y: false } },
      hooks: { draw: [marks(c, factor)] },
    }, aligned);
  }

  function build() {
    shared.clear();
    for (const c of data.charts) draw(c);
  }

  build();
  shared.watch(build, () => 690);
})();
