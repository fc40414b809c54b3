// Time lines of experiments side by side. Input: the JSON in #data (crates/report/src/lab/compare.rs). Needs charts.js.
(() => {
  const lines = JSON.parse(document.getElementById("data").textContent);
  const { RATES, SHARES, COLOURS, losses, track } = shared;

  function chart(id, line, curves, units, yName, range) {
    document.getElementById(id).classList.toggle("empty", !curves.length);
    if (!curves.length) return;
    const marks = shared.marks(line.marks);
    const specs = curves.map(([of, v], i) => ({ label: of.label, colour: track(i % COLOURS), width: 1.6, t: line.times[of.t], v }));
    shared.timeChart(id, specs, units, yName, {
      endS: line.end_s, xName: "time since the start of the run (s)", height: 160, range, hooks: { init: [marks.init], draw: [marks.draw] },
    });
  }

  function build() {
    shared.clear();
    lines.forEach((line, i) => {
      chart("throughput-" + i, line, line.flows.map((f) => [f, f.bps]), RATES, "goodput");
      chart("losses-" + i, line, line.links.filter((l) => l.lost.length).slice(0, COLOURS).map((l) => [l, l.lost]), SHARES, "lost", losses);
    });
  }

  if (!lines.length) return;
  build();
  shared.watch(build, () => 690);
})();
