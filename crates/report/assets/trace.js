// Charts of a trace. Input: the JSON in #data (crates/report/src/trace/page.rs). Needs charts.js.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { RATES, SPANS, colour, track, hasAny } = shared;
  const PACKETS = [[1, "packets"]], PLAIN = [[1, ""]];
  // As many connections as one chart can hold.
  const TOGETHER = 12;
  const byId = (id) => document.getElementById(id);
  let chosen = data.flows[0];

  // Lines where the state changed; retransmissions as ticks at the bottom.
  function drawEvents(u) {
    const { ctx, bbox } = u, ratio = uPlot.pxRatio;
    ctx.save();
    ctx.lineWidth = ratio;
    for (const e of chosen.events) {
      const x = Math.round(u.valToPos(e.at_s, "x", true));
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      const isTick = e.text === "retransmission";
      ctx.strokeStyle = colour(isTick || e.text === "loss" || e.text === "recovery" ? "loss" : "muted");
      ctx.setLineDash(isTick ? [] : [3 * ratio, 4 * ratio]);
      ctx.beginPath();
      ctx.moveTo(x, isTick ? bbox.top + bbox.height - 7 * ratio : bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
    }
    ctx.restore();
  }

  function chart(id, specs, units, yName, options) {
    const drawn = specs.filter((s) => hasAny(s.v));
    byId(id).classList.toggle("empty", !drawn.length);
    byId(id).querySelector(".canvas").textContent = "";
    if (!drawn.length) return;
    shared.timeChart(id, drawn, units, yName, Object.assign({ endS: data.end_s, xName: "time since the start of the trace (s)", height: 220 }, options));
  }

  const together = (key) => data.flows.slice(0, TOGETHER).map((f, i) => ({ label: f.label, colour: track(i), dash: i < 8 ? undefined : [6, 3], t: f.t, v: f[key] }));

  function one() {
    const f = chosen;
    const line = (label, key, i, more) => Object.assign({ label, colour: track(i), t: f.t, v: f[key] }, more);
    const thinned = f.one_in > 1 ? `Drawn: one sample in ${f.one_in}; the table is of all.` : "";
    const marks = f.events_left_out ? ` Not marked: ${f.events_left_out} of the later retransmissions and changes.` : "";
    byId("thinned").textContent = thinned + marks;
    chart("window", [
      line("congestion window", "cwnd", 0, { width: 2 }),
      line("slow start threshold", "ssthresh", 1, { dash: [7, 4] }),
      line("in flight", "flight", 2, { dash: [2, 3] }),
    ], PACKETS, "window", { hooks: { draw: [drawEvents] } });
    chart("rtt", [
      line("smoothed", "srtt_ns", 0, { width: 2 }),
      line("smallest", "min_rtt_ns", 1, { dash: [7, 4] }),
      line("FAST: base", "base_rtt_ns", 3, { dash: [2, 3] }),
      line("FAST: mean", "average_rtt_ns", 4),
    ], SPANS, "round trip");
    chart("rate", [
      line("acknowledged", "acked_bps", 0, { width: 2 }),
      line("delivered", "delivery_bps", 2, { dash: [2, 3] }),
      line("pacing", "pacing_bps", 1, { dash: [7, 4] }),
    ], RATES, "rate");
    chart("inner", [line("queued", "queued", 0, { width: 2 })], PACKETS, "queued");
    chart("htcp", [line("alpha", "alpha", 0, { width: 2 }), line("beta", "beta", 1)], PLAIN, "packets, share");
    chart("lost", [line("lost, not retransmitted", "lost", 7), line("retransmitted", "sent_again", 1)], PACKETS, "packets");
  }

  function build() {
    shared.clear();
    if (!data.flows.length) return;
    chart("all-rate", data.flows.length > 1 ? together("acked_bps") : [], RATES, "acknowledged");
    chart("all-window", data.flows.length > 1 ? together("cwnd") : [], PACKETS, "window");
    one();
  }

  function choice() {
    const box = byId("choice");
    if (!box || data.flows.length < 2) return;
    const select = document.createElement("select");
    select.setAttribute("aria-label", "connection");
    for (const [i, f] of data.flows.entries()) select.append(new Option(f.label, i));
    select.addEventListener("change", () => { chosen = data.flows[+select.value]; build(); });
    box.append(select);
  }

  choice();
  build();
  shared.watch(build, () => 640);
})();
