// Curves of an evaluation. Input: the JSON in #data (crates/report/src/evaluate/page.rs). Needs charts.js.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { COLOURS, colour, track, number, axes, legend, place, logRange } = shared;
  const DASHES = [undefined, [7, 4], [2, 3]];

  // Where estimate and what it is compared with are equal.
  function drawOne(u) {
    const { ctx, bbox } = u, x = Math.round(u.valToPos(1, "x", true));
    if (x < bbox.left || x > bbox.left + bbox.width) return;
    ctx.save();
    ctx.strokeStyle = colour("muted");
    ctx.lineWidth = uPlot.pxRatio;
    ctx.setLineDash([4 * uPlot.pxRatio, 4 * uPlot.pxRatio]);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.restore();
  }

  // A step at each ratio; of equal ratios the last share is the curve's.
  function steps(curve) {
    const x = [], y = [];
    curve.x.forEach((v, i) => {
      if (x.length && x[x.length - 1] === v) y[y.length - 1] = curve.y[i];
      else { x.push(v); y.push(curve.y[i]); }
    });
    return [x, y.map((v) => 100 * v)];
  }

  function draw(chart) {
    const aligned = uPlot.join(chart.curves.map(steps));
    const stepped = uPlot.paths.stepped({ align: 1 });
    const series = chart.curves.map((c) => ({
      label: c.label, stroke: track(c.number), dash: DASHES[Math.floor(c.number / COLOURS) % DASHES.length], width: 1.8,
      points: { show: c.x.length < 2 }, paths: stepped, spanGaps: true, value: (u, v) => (v == null ? "–" : v.toFixed(0) + " %"),
    }));
    const xAxes = axes(chart.x_name, "paths (%)", null);
    xAxes[0].values = (u, splits) => splits.map((v) => (v == null ? "" : String(+v.toPrecision(3))));
    place(chart.id, {
      height: 300, series: [{ label: chart.x_name, value: (u, v) => (v == null ? "–" : number(v)) }, ...series],
      scales: { x: { time: false, distr: 3, range: (u, min, max) => logRange(min, max) }, y: { range: () => [0, 100] } },
      legend: legend(series), axes: xAxes, cursor: { y: false, drag: { x: true, y: false } }, hooks: { draw: [drawOne] },
    }, aligned);
  }

  function build() {
    shared.clear();
    data.charts.forEach(draw);
  }

  build();
  shared.watch(build, () => 640);
})();
