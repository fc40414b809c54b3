//! Progress line of an experiment.

use std::time::Duration;

use results::lab::{LabEngine, LabRecord, LinkInterval, Verdict};

use crate::summary::{finite, nanos, printable, rate};

/// State of the current run from its latest records.
///
/// Pass every record, and call [`line`](Self::line) for each update of the terminal.
#[derive(Debug, Default)]
pub struct LabProgress {
    planned: u64,
    started: u64,
    /// Number of the run, as in its records and in the reasons of a verdict.
    run: u32,
    invalid: u64,
    duration_s: f64,
    now_s: f64,
    /// Virtual seconds of the runs before the current one.
    earlier_s: f64,
    is_simulated: bool,
    /// Time since the start of the experiment on the clock of this host.
    elapsed: Duration,
    /// Flows in the order of the experiment file, with their latest rate.
    flows: Vec<(String, Option<u64>)>,
    /// Start of the latest interval of the links, and the link with the highest rate in it.
    busiest: Option<(f64, String, u64)>,
    late_p99_ns: Option<u64>,
    is_done: bool,
}

impl LabProgress {
    /// Creates an empty state.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a record, received `elapsed` after the start of the experiment on the clock of this host.
    pub fn record(&mut self, record: &LabRecord, elapsed: Duration) {
        self.elapsed = elapsed;
        match record {
            LabRecord::Experiment(e) => {
                (self.planned, self.is_simulated) = (e.planned_runs(), e.engine == LabEngine::Simulator);
            }
            LabRecord::Run(r) => {
                self.earlier_s += self.now_s;
                (self.started, self.run) = (self.started + 1, r.run);
                (self.duration_s, self.now_s, self.late_p99_ns) = (finite(r.duration_s), 0.0, None);
                self.busiest = None;
                // Streams of small transfers have neither a rate nor a command.
                let bulk = r.flows.iter().filter(|f| f.command.is_some());
                self.flows = bulk.map(|f| (f.flow.clone(), None)).collect();
            }
            LabRecord::Flow(f) => {
                self.now_s = self.now_s.max(finite(f.end_s));
                match self.flows.iter_mut().find(|(name, _)| *name == f.flow) {
                    Some((_, rate)) => *rate = Some(f.throughput_bps),
                    None => self.flows.push((f.flow.clone(), Some(f.throughput_bps))),
                }
            }
            LabRecord::Engine(e) => {
                self.now_s = self.now_s.max(finite(e.end_s));
                self.late_p99_ns = self.late_p99_ns.max(e.lateness.as_ref().map(|d| d.p99_ns));
            }
            LabRecord::RunEnd(e) => self.invalid += u64::from(e.verdict != Verdict::Valid),
            LabRecord::Summary(_) => self.is_done = true,
            LabRecord::Link(l) => self.link(l),
            LabRecord::Transfer(_) => {}
        }
    }

    fn link(&mut self, l: &LinkInterval) {
        let seconds = finite(l.end_s - l.start_s);
        let bps = if seconds > 0.0 { (l.statistics.delivered.bytes as f64 * 8.0 / seconds) as u64 } else { 0 };
        let is_more = self.busiest.as_ref().is_none_or(|(start, _, max_bps)| l.start_s > *start || bps > *max_bps);
        if is_more {
            self.busiest = Some((finite(l.start_s), l.statistics.link.clone(), bps));
        }
    }

    /// `run 3 (4/8)  12.5/20.0 s  elephant1 34.64 Mb/s  elephant2 -  late 40.8 us`, of at most `width` characters.
    ///
    /// For a simulation the line ends with its speed, the virtual seconds of all runs per second.
    ///
    /// Flows may report their rates only at their end; until then the line shows the busiest link and its delivered IP
    /// rate.
    ///
    /// If the line is too long, it lists fewer flows and the number of the others. The lateness is the largest 99th
    /// percentile of an interval since the start of the run.
    pub fn line(&self, width: usize) -> String {
        let mut head = match self.started {
            _ if self.is_done => format!("done, {} runs", self.started),
            0 => "preparing".to_owned(),
            n => {
                let of = self.planned.max(n);
                format!("run {} ({n}/{of})  {:.1}/{:.1} s", self.run, self.now_s, self.duration_s)
            }
        };
        let mut tail = String::new();
        if let Some(ns) = self.late_p99_ns.filter(|_| !self.is_done) {
            tail.push_str(&format!("  late {}", nanos(ns)));
        }
        if let Some(speed) = self.speed() {
            let digits = if speed < 10.0 { 1 } else { 0 };
            tail.push_str(&format!("  speed {speed:.digits$} s/s"));
        }
        if self.invalid > 0 {
            tail.push_str(&format!("  {} INVALID", self.invalid));
        }
        let room = width.saturating_sub(head.chars().count() + tail.chars().count());
        if !self.is_done {
            head.push_str(&self.rates(room));
        }
        head.push_str(&tail);
        head.chars().take(width).collect()
    }

    /// Virtual seconds of a simulation per second; `None` for other engines, whose speed is that of their clock.
    fn speed(&self) -> Option<f64> {
        let seconds = self.elapsed.as_secs_f64();
        let simulated_s = self.earlier_s + self.now_s;
        (self.is_simulated && seconds > 0.0 && simulated_s > 0.0).then(|| simulated_s / seconds)
    }

    /// As many flows as fit in `room` characters, and the number of the remaining ones.
    fn rates(&self, room: usize) -> String {
        let text = |(name, bps): &(String, Option<u64>)| {
            format!("  {} {}", printable(name), bps.map_or_else(|| "-".to_owned(), rate))
        };
        if let (true, Some((_, link, bps))) = (self.flows.iter().all(|(_, bps)| bps.is_none()), &self.busiest) {
            let busiest = format!("  link {} {}", printable(link), rate(*bps));
            return if busiest.chars().count() <= room { busiest } else { String::new() };
        }
        let all: Vec<String> = self.flows.iter().map(text).collect();
        let rest = |shown: usize| match all.len() - shown {
            0 => String::new(),
            n => format!("  +{n} flow{}", if n == 1 { "" } else { "s" }),
        };
        let shown = |n: usize| format!("{}{}", all[..n].concat(), rest(n));
        let fitting = (0..=all.len()).rev().map(shown).find(|s| s.chars().count() <= room);
        fitting.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::fixture::{Lab, records};

    fn after(n: usize) -> LabProgress {
        let mut progress = LabProgress::new();
        records(&Lab::default()).iter().take(n).for_each(|r| progress.record(r, Duration::ZERO));
        progress
    }

    #[test]
    fn the_line_grows_with_the_records() {
        assert_eq!(after(1).line(100), "preparing");
        assert_eq!(after(2).line(100), "run 0 (1/8)  0.0/20.0 s  elephant1 -  elephant2 -");
        let all = usize::MAX;
        assert_eq!(after(all).line(100), "done, 8 runs  1 INVALID");
    }

    #[test]
    fn the_busiest_link_stands_for_flows_that_report_their_rate_at_the_end() {
        let mut progress = LabProgress::new();
        let mut max_bps = 0;
        for r in records(&Lab::single()).iter().filter(|r| !matches!(r, LabRecord::Flow(_))).take(7) {
            progress.record(r, Duration::ZERO);
            if let LabRecord::Link(l) = r {
                // Intervals of 500 ms.
                max_bps = max_bps.max(l.statistics.delivered.bytes * 16);
            }
        }
        let line = progress.line(100);
        assert!(line.contains(&format!("  link path {}", rate(max_bps))) && !line.contains("elephant"), "{line}");
        assert!(!progress.line(30).contains("link"));
    }

    #[test]
    fn a_simulation_shows_its_virtual_seconds_per_second() {
        let mut simulated = records(&Lab::default());
        for r in &mut simulated {
            if let LabRecord::Experiment(e) = r {
                e.engine = LabEngine::Simulator;
            }
        }
        let line_after = |records: &[LabRecord], runs: usize, elapsed_ms| {
            let mut progress = LabProgress::new();
            let mut started = 0;
            for r in records {
                started += usize::from(matches!(r, LabRecord::Run(_)));
                if started > runs {
                    break;
                }
                progress.record(r, Duration::from_millis(elapsed_ms));
            }
            progress.line(100)
        };
        // Runs of 20 s each: one in 100 ms, three in 12 s.
        let one = line_after(&simulated, 1, 100);
        assert!(one.contains("  speed 200 s/s"), "{one}");
        let three = line_after(&simulated, 3, 12_000);
        assert!(three.contains("  speed 5.0 s/s"), "{three}");
        assert!(!line_after(&records(&Lab::default()), 1, 100).contains("speed"), "the kernel runs in real time");
    }

    #[test]
    fn rates_are_left_out_before_the_lateness() {
        let progress = after(400);
        let wide = progress.line(120);
        assert!(
            wide.starts_with("run 1 (2/8)  ") && wide.contains("elephant1 ") && wide.contains("elephant2 "),
            "{wide}"
        );
        assert!(wide.contains(" Mb/s") && wide.contains("late ") && !wide.contains('+'), "{wide}");
        let narrow = progress.line(72);
        assert!(narrow.contains("elephant1") && narrow.contains("+1 flow") && narrow.contains("late "), "{narrow}");
        let narrower = progress.line(48);
        assert!(narrower.contains("+2 flows") && narrower.contains("late "), "{narrower}");
        for width in 0..130 {
            assert!(progress.line(width).chars().count() <= width);
        }
    }

    #[test]
    fn names_that_move_the_cursor_stay_text() {
        let mut all = records(&Lab::single());
        for r in &mut all {
            if let LabRecord::Flow(f) = r {
                f.flow = "a\x1b[2Jb\n".to_owned();
            }
        }
        let mut progress = LabProgress::new();
        all.iter().take(20).for_each(|r| progress.record(r, Duration::ZERO));
        assert!(progress.line(200).chars().all(|c| !c.is_control()));
    }
}
