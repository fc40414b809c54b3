use results::{LossEpisode, TcpState};
use units::{Duration, Instant};

/// Share of the earlier window at which a sender counts as recovered.
const RECOVERED_SHARE: f64 = 0.9;
/// TCP_CA_Recovery (include/uapi/linux/tcp.h); TCP_CA_Loss is above. CWR below them is a reaction to a mark or a local
/// drop.
const CA_STATE_RECOVERY: u8 = 3;

/// Finds the loss episodes of one stream in a sequence of socket states, fed about every 10 ms.
///
/// An episode starts when the retransmit counter rises or the congestion state becomes recovery or loss. The sender's
/// reaction lasts until a state without either. The depth compares the smallest window since then with the window in
/// the last state before. A second reaction before the window has recovered is a separate episode; the first one
/// continues to wait for its own window. Marks (ECN) without loss are not counted.
///
/// The resolution of times is the interval between the states. Memory is bounded by the number of episodes listed.
#[derive(Debug, Clone)]
pub struct LossEpisodes {
    stream: u32,
    start: Instant,
    listed_max: usize,
    listed: Vec<Episode>,
    total: u64,
    retransmits: Option<u64>,
    /// Window in the last state outside a reaction.
    calm_cwnd: u64,
    reacting: bool,
}

#[derive(Debug, Clone)]
struct Episode {
    start: Instant,
    retransmits: u64,
    cwnd_before: u64,
    cwnd_min: u64,
    recovered: Option<Instant>,
}

impl LossEpisodes {
    /// Creates a detector for `stream`, whose load starts at `start`. It lists the first `max_listed` episodes and
    /// counts all.
    pub fn new(stream: u32, start: Instant, max_listed: usize) -> Self {
        Self {
            stream,
            start,
            listed_max: max_listed,
            listed: Vec::new(),
            total: 0,
            retransmits: None,
            calm_cwnd: 0,
            reacting: false,
        }
    }

    /// Handles the socket's state at `now`.
    pub fn handle_state(&mut self, now: Instant, tcp: &TcpState) {
        // Retransmissions before the first state are not counted: they can precede the load.
        let new = tcp.retransmits.saturating_sub(self.retransmits.unwrap_or(tcp.retransmits));
        if self.retransmits.is_none() {
            self.calm_cwnd = tcp.cwnd_bytes;
        }
        self.retransmits = Some(tcp.retransmits);
        let lossy = new > 0 || tcp.ca_state >= CA_STATE_RECOVERY;
        if lossy && !self.reacting {
            self.start_episode(now);
        }
        self.reacting = lossy;
        self.update_current(new, tcp.cwnd_bytes);
        if !lossy {
            self.calm_cwnd = tcp.cwnd_bytes;
            self.recover(now, tcp.cwnd_bytes);
        }
    }

    /// The listed episodes and the total number, at the end `now` of the load.
    ///
    /// Episodes and recoveries after `now` are left out: a window that grows while it is not used is no recovery.
    pub fn finish(self, now: Instant, baseline_rtt: Option<Duration>) -> (Vec<LossEpisode>, u64) {
        let after = self.listed.iter().filter(|e| e.start > now).count() as u64;
        let during = self.listed.iter().filter(|e| e.start <= now);
        let list = during.map(|e| e.record(self.stream, self.start, now, baseline_rtt)).collect();
        (list, self.total - after)
    }

    fn start_episode(&mut self, now: Instant) {
        self.total += 1;
        if self.listed.len() < self.listed_max {
            let cwnd = self.calm_cwnd;
            let episode = Episode { start: now, retransmits: 0, cwnd_before: cwnd, cwnd_min: cwnd, recovered: None };
            self.listed.push(episode);
        }
    }

    /// The latest episode, if it is listed, is the one to which the sender reacts and in which the window falls.
    fn update_current(&mut self, new_retransmits: u64, cwnd: u64) {
        if self.total != self.listed.len() as u64 {
            return;
        }
        if let Some(current) = self.listed.last_mut().filter(|e| e.recovered.is_none()) {
            current.retransmits += new_retransmits;
            current.cwnd_min = current.cwnd_min.min(cwnd);
        }
    }

    fn recover(&mut self, now: Instant, cwnd: u64) {
        for e in self.listed.iter_mut().filter(|e| e.recovered.is_none()) {
            if cwnd as f64 >= e.cwnd_before as f64 * RECOVERED_SHARE {
                e.recovered = Some(now);
            }
        }
    }
}

impl Episode {
    fn record(&self, stream: u32, start: Instant, end: Instant, baseline_rtt: Option<Duration>) -> LossEpisode {
        let recovered = self.recovered.filter(|r| *r <= end);
        let recovery_s = recovered.map(|r| r.saturating_since(self.start).as_secs_f64());
        let rtt_s = baseline_rtt.map(|r| r.as_secs_f64()).filter(|s| *s > 0.0);
        let fallen = self.cwnd_before.saturating_sub(self.cwnd_min) as f64;
        LossEpisode {
            stream,
            start_s: self.start.saturating_since(start).as_secs_f64(),
            retransmits: self.retransmits,
            depth: if self.cwnd_before == 0 { 0.0 } else { fallen / self.cwnd_before as f64 },
            recovery_s,
            recovery_rtts: recovery_s.zip(rtt_s).map(|(r, rtt)| r / rtt),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Option<Duration> = Some(Duration::from_millis(100));

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(50_000_000_000 + ms * 1_000_000)
    }

    /// Feeds (time in ms, cwnd in kB, retransmits so far, ca_state).
    fn feed(max_listed: usize, states: &[(u64, u64, u64, u8)]) -> LossEpisodes {
        let mut e = LossEpisodes::new(3, at(0), max_listed);
        for (ms, cwnd_kb, retransmits, ca_state) in states {
            let (cwnd_bytes, retransmits, ca_state) = (cwnd_kb * 1000, *retransmits, *ca_state);
            e.handle_state(at(*ms), &TcpState { cwnd_bytes, retransmits, ca_state, ..TcpState::default() });
        }
        e
    }

    #[test]
    fn a_fast_recovery_has_depth_and_recovery_time() {
        // CUBIC: 1000 kB falls to 700, and is back at 900 kB 400 ms after the loss was detected.
        let e = feed(
            10,
            &[
                (0, 900, 2, 0),
                (100, 1000, 2, 0),
                (110, 950, 5, 3),
                (160, 700, 9, 3),
                (210, 700, 9, 0),
                (400, 800, 9, 0),
            ],
        );
        let mut longer = e.clone();
        let back = TcpState { cwnd_bytes: 905_000, retransmits: 9, ..TcpState::default() };
        longer.handle_state(at(510), &back);
        let (list, total) = longer.finish(at(600), RTT);
        assert_eq!((list.len(), total), (1, 1));
        let one = &list[0];
        assert_eq!((one.stream, one.retransmits), (3, 7), "the two before the load are not counted");
        assert!((one.start_s - 0.11).abs() < 1e-9 && (one.depth - 0.3).abs() < 1e-9);
        assert!((one.recovery_s.unwrap() - 0.4).abs() < 1e-9 && (one.recovery_rtts.unwrap() - 4.0).abs() < 1e-9);
        let (unrecovered, _) = e.finish(at(600), RTT);
        assert_eq!(unrecovered[0].recovery_s, None);
    }

    #[test]
    fn a_timeout_falls_to_one_segment() {
        let (list, _) =
            feed(10, &[(0, 1000, 0, 0), (300, 1, 1, 4), (400, 2, 1, 4), (500, 500, 1, 0), (900, 990, 1, 0)])
                .finish(at(1000), None);
        assert!((list[0].depth - 0.999).abs() < 1e-9);
        assert!((list[0].recovery_s.unwrap() - 0.6).abs() < 1e-9);
        assert_eq!(list[0].recovery_rtts, None);
    }

    #[test]
    fn a_second_loss_before_recovery_is_an_episode_of_its_own() {
        let (list, total) = feed(
            10,
            &[
                (0, 1000, 0, 0),
                (10, 700, 1, 3),
                (20, 700, 1, 0),
                (30, 560, 2, 3),
                (40, 490, 2, 0),
                (90, 640, 2, 0),
                (200, 900, 2, 0),
            ],
        )
        .finish(at(300), RTT);
        assert_eq!(total, 2);
        let depths: Vec<_> = list.iter().map(|e| (e.depth * 100.0).round() as u64).collect();
        assert_eq!(depths, [30, 30], "1000 to 700, then 700 to 490");
        let recoveries: Vec<_> = list.iter().map(|e| (e.recovery_s.unwrap() * 1e3).round() as u64).collect();
        assert_eq!(recoveries, [190, 60], "to 900 from 10 ms; to 630 from 30 ms");
    }

    #[test]
    fn the_list_is_bounded_and_the_count_is_not() {
        let states: Vec<_> = (0..100).map(|i| (i * 10, 1000, i / 2, 0)).collect();
        let (list, total) = feed(4, &states).finish(at(2000), RTT);
        assert_eq!((list.len(), total), (4, 49));
        assert!(list.iter().all(|e| e.depth == 0.0 && e.recovery_s == Some(0.01) && e.retransmits == 1));
    }

    #[test]
    fn events_after_the_load_are_left_out() {
        let states = [(0, 1000, 0, 0), (10, 500, 1, 3), (20, 500, 1, 0), (900, 1000, 1, 0), (910, 500, 2, 3)];
        let (list, total) = feed(10, &states).finish(at(100), RTT);
        assert_eq!((list.len(), total), (1, 1));
        assert_eq!(list[0].recovery_s, None);
    }

    #[test]
    fn a_mark_without_loss_is_no_loss_episode() {
        assert_eq!(feed(10, &[(0, 1000, 0, 0), (10, 700, 0, 2), (20, 700, 0, 0)]).finish(at(100), RTT).1, 0);
    }
}
