// What the charts of all pages share: colours, units, axes, charts over time. Needs uPlot; no network.
"use strict";
const shared = (() => {
  const COLOURS = 8;
  let charts = [];

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  const track = (i) => colour("t" + (i % COLOURS));
  const hasAny = (values) => values.some((v) => v !== null);

  // The largest unit in which the largest value is at least 1.
  const RATES = [[1e9, "Gb/s"], [1e6, "Mb/s"], [1e3, "kb/s"], [1, "b/s"]];
  const SPANS = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];
  const SHARES = [[0.01, "%"]];
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

  // Dashed lines at times, `{at_s, text}` each, and places on them that the pointer can find, with the text.
  function marks(all) {
    const draw = (u) => {
      const { ctx, bbox } = u;
      ctx.save();
      ctx.strokeStyle = colour("muted");
      ctx.lineWidth = uPlot.pxRatio;
      ctx.setLineDash([4 * uPlot.pxRatio, 4 * uPlot.pxRatio]);
      for (const m of all) {
        const x = Math.round(u.valToPos(m.at_s, "x", true));
        if (x < bbox.left || x > bbox.left + bbox.width) continue;
        ctx.beginPath();
        ctx.moveTo(x, bbox.top);
        ctx.lineTo(x, bbox.top + bbox.height);
        ctx.stroke();
      }
      ctx.restore();
      u.marks.forEach((e, i) => {
        const x = u.valToPos(all[i].at_s, "x"), width = u.over.clientWidth;
        e.style.left = x + "px";
        e.classList.toggle("left", x > width / 2);
        e.hidden = x < 0 || x > width;
      });
    };
    const init = (u) => {
      u.marks = all.map((m) => {
        const e = document.createElement("div"), text = document.createElement("span");
        e.className = "mark";
        text.textContent = m.at_s + " s: " + m.text;
        e.append(text);
        u.over.append(e);
        return e;
      });
    };
    return { init, draw };
  }

  // Losses of a link are rarely near 100 %.
  const losses = (u, min, max) => [0, Math.max(1, max * 1.1)];
  // Up to 100 %, unless that would leave every curve at the bottom.
  const shares = (u, min, max) => [0, max > 20 ? Math.max(104, max * 1.04) : Math.max(1, max * 1.1)];

  function place(id, options, aligned) {
    const section = document.getElementById(id);
    const box = section.querySelector(".canvas");
    options.width = Math.max(260, box.clientWidth);
    const chart = new uPlot(options, aligned, box);
    charts.push({ chart, box, id });
    return chart;
  }

  // specs: {label, colour, dash, width, t, v, show, isPoints, paths, fill, text}: t in seconds, v in the smallest of
  // units; text(index) is shown in the legend in place of the value.
  // options: {endS, xName, isLog, height, hooks, range, sync}
  function timeChart(id, specs, units, yName, options) {
    const isLog = options.isLog;
    const [factor, unit] = unitFor(units, specs);
    const scaled = specs.map((s) => s.v.map((v) => (v === null || (isLog && v <= 0) ? null : v / factor)));
    const aligned = uPlot.join(specs.map((s, i) => [s.t, scaled[i]]));
    const series = specs.map((s) => ({
      label: s.label, stroke: s.colour, dash: s.dash, width: s.width || 1.6, show: s.show !== false,
      points: s.isPoints ? { show: true, size: 5, fill: s.colour } : { show: s.t.length < 2 }, fill: s.fill,
      paths: s.isPoints ? () => null : s.paths,
      value: (u, v, k, i) => (s.text && i != null ? s.text(i) : v == null ? "–" : number(v) + " " + unit),
    }));
    const yScale = isLog ? { distr: 3, range: (u, min, max) => logRange(min, max) } : { range: options.range || ((u, min, max) => yRange(min, max)) };
    // From the start of the test to its end, not from the middle of the first interval to that of the last.
    const first = aligned[0][0], last = aligned[0][aligned[0].length - 1];
    const xRange = (u, min, max) => [min <= first ? 0 : min, max >= last ? Math.max(options.endS, last) : max];
    const logLabels = (u, splits) => splits.map((v) => (v == null ? "" : number(v).replace(/\.0+$/, "")));
    return place(id, {
      height: options.height || 280, series: [{ label: "time", value: (u, v) => (v == null ? "–" : v.toFixed(2) + " s") }, ...series],
      scales: { x: { time: false, range: xRange }, y: yScale }, legend: legend(series),
      axes: axes(options.xName, yName + " (" + unit + ")", isLog ? logLabels : null),
      cursor: { y: false, sync: { key: "time", setSeries: false }, drag: { x: true, y: false } },
      hooks: Object.assign({}, options.hooks),
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

  function clear() {
    for (const c of charts) c.chart.destroy();
    charts = [];
  }

  // Redraws when the window, the colours or the medium change. printWidth(id): width on paper.
  function watch(build, printWidth) {
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
      for (const c of charts) c.chart.setSize({ width: Math.min(c.chart.width, printWidth(c.id)), height: 220 });
    });
    addEventListener("afterprint", () => { document.documentElement.classList.remove("print"); build(); });
  }

  return {
    COLOURS, RATES, SPANS, SHARES, marks, shares, losses, colour, track, hasAny, unitFor, number, span, axes, legend, place, timeChart, yRange, logRange,
    clear, watch,
  };
})();
