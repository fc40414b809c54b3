// Histograms of squeezed pairs. Input: the JSON in #data (crates/report/src/estimate/page.rs). Needs charts.js.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { SPANS, colour, track, unitFor, number, axes, place } = shared;

  // Lines at the characteristic gaps, with their names at the top.
  function drawMarks(u, marks) {
    const { ctx, bbox } = u, ratio = uPlot.pxRatio;
    ctx.save();
    ctx.font = 11 * ratio + "px system-ui, sans-serif";
    ctx.textAlign = "left";
    ctx.textBaseline = "top";
    ctx.lineWidth = ratio;
    for (const mark of marks) {
      const x = Math.round(u.valToPos(mark.at, "x", true));
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      const isSent = mark.name === "sent";
      ctx.strokeStyle = ctx.fillStyle = colour(isSent ? "loss" : "muted");
      ctx.setLineDash(isSent ? [] : [3 * ratio, 4 * ratio]);
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      ctx.fillText(mark.name, x + 3 * ratio, bbox.top + 2 * ratio);
    }
    ctx.restore();
  }

  function draw(chart) {
    const [factor, unit] = unitFor(SPANS, [{ v: [chart.end_ns] }]);
    const marks = chart.marks.map((m) => ({ name: m.name, at: m.at_ns / factor }));
    const middles = chart.counts.map((n, i) => (i + 0.5) * chart.bin_ns / factor);
    const bars = uPlot.paths.bars({ size: [1, Infinity], gap: 0 });
    const value = (u, v) => (v == null ? "–" : number(v) + " " + unit);
    place(chart.id, {
      height: 220, series: [{ label: "gap", value }, { label: "pairs", stroke: track(0), fill: track(0), width: 0, points: { show: false }, paths: bars }],
      scales: { x: { time: false, range: () => [0, chart.end_ns / factor] }, y: { range: (u, min, max) => [0, Math.max(1, max) * 1.15] } },
      axes: axes("gap at the receiver (" + unit + ")", "pairs", null), cursor: { y: false, drag: { x: false, y: false } },
      hooks: { draw: [(u) => drawMarks(u, marks)] },
    }, [middles, chart.counts]);
  }

  function build() {
    shared.clear();
    data.charts.forEach(draw);
  }

  build();
  shared.watch(build, () => 640);
})();
