//! Scripts: acknowledgements at given times, and the segments that must follow.

use tcp::{Ack, Control, Info, SackBlocks, Sender, SenderConfig, SeqRange, State};
use units::{Duration, Instant};

/// Payload of a segment in bytes; the scripts count segments.
const MSS: u64 = 1000;
/// Round-trip time of the handshake.
const RTT_MS: u64 = 100;

struct Script {
    sender: Sender,
    now: Instant,
}

/// Sent segments: first number, count, and whether they were sent before.
type Sent = (u64, u64, bool);

const fn new(first: u64, count: u64) -> Sent {
    (first, count, false)
}

const fn again(first: u64) -> Sent {
    (first, 1, true)
}

impl Script {
    fn with(config: SenderConfig) -> Self {
        let config = SenderConfig { mss: MSS as u32, peer_window: 1 << 30, offload_bytes: 1, ..config };
        let mut sender = Sender::new(Instant::ZERO, config, Control::reno());
        sender.handle_handshake(Instant::ZERO, Duration::from_millis(RTT_MS));
        Self { sender, now: Instant::ZERO }
    }

    /// Ten segments in flight at time 0, and more to send.
    fn started() -> Self {
        let mut script = Self::with(SenderConfig::default());
        script.write(1000);
        assert_eq!(script.sent(), (0..10).map(|n| new(n, 1)).collect::<Vec<_>>());
        script
    }

    /// The same with only these segments to send.
    fn with_segments(count: u64) -> Self {
        let mut script = Self::with(SenderConfig::default());
        script.write(count);
        script.sent();
        script
    }

    fn write(&mut self, segments: u64) {
        self.sender.write(self.now, segments * MSS);
    }

    fn sent(&mut self) -> Vec<Sent> {
        let mut all = Vec::new();
        while let Some(s) = self.sender.poll_transmit(self.now) {
            all.push((s.seq / MSS, s.count(), s.is_retransmission));
        }
        all
    }

    /// Handles the timers until a time in ms, and returns what they send with its time.
    fn wait(&mut self, until_ms: u64) -> Vec<(u64, Sent)> {
        let until = Instant::from_nanos(until_ms * 1_000_000);
        let mut all = Vec::new();
        while let Some(at) = self.sender.poll_timeout().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.sender.handle_timeout(self.now);
            let ms = self.now.as_nanos() / 1_000_000;
            all.extend(self.sent().into_iter().map(|s| (ms, s)));
        }
        self.now = until;
        all
    }

    /// An acknowledgement at a time in ms, with the timestamp of a segment sent at `echo_ms`.
    fn ack_full(&mut self, at_ms: u64, next: u64, sack: &[(u64, u64)], twice: Option<u64>, echo_ms: u64) -> Vec<Sent> {
        assert_eq!(self.wait(at_ms), [], "nothing is sent before {at_ms} ms");
        let mut blocks = SackBlocks::default();
        let range = |(start, end): (u64, u64)| SeqRange { start: start * MSS, end: end * MSS };
        sack.iter().for_each(|block| blocks.push(range(*block)));
        let duplicate = twice.map(|n| range((n, n + 1)));
        let ack = Ack { cumulative: next * MSS, window_end: 1 << 30, sack: blocks, duplicate, echo_ms };
        self.sender.handle_ack(self.now, &ack);
        self.sent()
    }

    fn ack(&mut self, at_ms: u64, next: u64, sack: &[(u64, u64)]) -> Vec<Sent> {
        self.ack_full(at_ms, next, sack, None, at_ms.saturating_sub(RTT_MS))
    }

    fn info(&self) -> Info {
        self.sender.info()
    }
}

/// RFC 5681, 3.1: two more segments for each acknowledged one in slow start.
#[test]
fn slow_start_sends_two_segments_for_one() {
    let mut s = Script::started();
    assert_eq!(s.ack(100, 2, &[]), [new(10, 1), new(11, 1), new(12, 1), new(13, 1)]);
    assert_eq!(s.info().window, 12);
}

/// A window that the application does not use stays (tcp_is_cwnd_limited).
#[test]
fn an_unused_window_does_not_grow() {
    let mut s = Script::with_segments(4);
    for round in 1..=5 {
        s.ack(100 * round, 4 * round, &[]);
        s.write(4);
        assert_eq!(s.sent().len(), 4);
    }
    assert_eq!(s.info().window, 10);
}

#[test]
fn the_receive_window_bounds_the_flight() {
    let mut s = Script::with(SenderConfig::default());
    s.sender = Sender::new(
        Instant::ZERO,
        SenderConfig { mss: MSS as u32, peer_window: 3500, offload_bytes: 1, ..SenderConfig::default() },
        Control::reno(),
    );
    s.write(100);
    assert_eq!(s.sent(), [new(0, 1), new(1, 1), new(2, 1)]);
}

/// RFC 8985, 6.2, step 4 and 5: without reordering the window is 0 once three segments are selectively acknowledged.
#[test]
fn three_segments_beyond_a_hole_retransmit_it() {
    let mut s = Script::started();
    assert_eq!(s.ack(100, 0, &[(1, 2)]), [new(10, 1)]);
    assert_eq!(s.ack(101, 0, &[(1, 3)]), [new(11, 1)]);
    assert_eq!(s.info().state, State::Disorder);
    let sent = s.ack(102, 0, &[(1, 4)]);
    assert_eq!(sent[0], again(0));
    assert_eq!((s.info().state, s.info().threshold, s.info().lost), (State::Recovery, 5, 1));
}

/// With fewer, the reordering timer of a quarter of the minimum round trip decides (RFC 8985, 6.2).
#[test]
fn the_reordering_timer_retransmits_a_hole() {
    let mut s = Script::with_segments(3);
    assert_eq!(s.ack(100, 0, &[(2, 3)]), []);
    let sent = s.wait(200);
    // 25 ms, and two ticks of 4 ms that the kernel adds, rounded up to a tick; the timer wheel adds one.
    let (at, first) = sent[0];
    assert!((133..=140).contains(&at) && first == again(0), "{sent:?}");
}

/// RFC 6937: half of a window of 10 leaves in one round trip, one segment for two delivered.
#[test]
fn rate_reduction_sends_one_segment_for_two_delivered() {
    let mut s = Script::started();
    let mut sent = Vec::new();
    for n in 2..=10 {
        sent.extend(s.ack(100 + n, 0, &[(1, n)]));
    }
    // Nine deliveries: two new segments before the loss is detected, then ceil(5/10 x delivered).
    assert_eq!(sent.iter().filter(|s| **s == again(0)).count(), 1);
    assert!((5..=7).contains(&sent.len()), "{sent:?}");
    assert!(s.info().in_flight <= 6, "{:?}", s.info());
    // The hole is filled, and the segments sent in recovery: the window is the threshold.
    s.ack(205, 12, &[]);
    assert_eq!((s.info().state, s.info().threshold), (State::Open, 5));
    assert!(s.info().window <= 6, "{:?}", s.info());
}

/// A retransmission that is lost, too, is found when a segment sent after it is delivered.
#[test]
fn rack_finds_a_lost_retransmission() {
    let mut s = Script::started();
    let sent = s.ack(100, 0, &[(1, 8)]);
    assert_eq!(sent[0], again(0));
    let later = sent.iter().find(|s| !s.2).copied().or_else(|| s.ack(110, 0, &[(1, 10)]).first().copied());
    let (number, ..) = later.unwrap();
    let sent = s.ack(215, 0, &[(number, number + 1), (1, 10)]);
    assert!(sent.contains(&again(0)), "{sent:?}");
    assert_eq!((s.info().timeouts, s.info().retransmissions, s.info().lost), (0, 2, 2));
}

/// RFC 8985, 7.2: the probe leaves after two round trips and is new data if there is some.
#[test]
fn a_probe_sends_new_data() {
    let mut s = Script::started();
    s.write(100);
    let sent = s.wait(250);
    // 2 x 100 ms and two ticks of 4 ms, rounded up to a tick.
    assert_eq!(sent, [(212, new(10, 1))]);
    assert_eq!(s.info().probes, 1);
}

/// Without new data it is the last segment; a single one waits for a delayed acknowledgement of 200 ms at most.
#[test]
fn a_probe_repeats_the_last_segment() {
    let mut s = Script::with_segments(2);
    assert_eq!(s.wait(250), [(212, again(1))]);
    let mut s = Script::with_segments(1);
    // The retransmission timeout of 300 ms is earlier than the probe of 400 ms: the probe takes its place.
    let sent = s.wait(330);
    assert!((300..=330).contains(&sent[0].0) && sent[0].1 == again(0), "{sent:?}");
}

/// A probe whose answer shows that it repaired a loss reduces the window (RFC 8985, 7.4).
#[test]
fn an_answered_probe_of_a_loss_reduces_the_window() {
    let mut s = Script::with_segments(8);
    assert_eq!(s.ack(100, 7, &[]), []);
    assert_eq!(s.wait(450).first().map(|(_, sent)| *sent), Some(again(7)));
    s.write(2);
    assert_eq!(s.sent(), [new(8, 1), new(9, 1)]);
    s.ack(560, 9, &[]);
    let info = s.info();
    assert!(info.threshold <= 9 && info.timeouts == 0, "{info:?}");
}

/// RFC 6298, 5.5: the timeout doubles.
#[test]
fn timeouts_double() {
    let mut s = Script::with_segments(1);
    let times: Vec<u64> = s.wait(10_000).into_iter().map(|(ms, _)| ms).collect();
    // The probe first; then 300 ms, 600 ms, ..., each late by up to an eighth.
    for (pair, expected) in times.windows(2).zip([300.0, 600.0, 1200.0, 2400.0]) {
        let gap = (pair[1] - pair[0]) as f64;
        assert!((expected - 4.0..expected * 1.16).contains(&gap), "{times:?}");
    }
}

/// After a timeout the window is one segment.
#[test]
fn a_timeout_starts_again_with_one_segment() {
    let mut s = Script::started();
    let sent = s.wait(700);
    assert_eq!(sent.iter().filter(|(_, sent)| *sent == again(0)).count(), 1, "{sent:?}");
    assert_eq!((s.info().window, s.info().threshold, s.info().state), (1, 5, State::Loss));
}

/// RFC 5682, 2.1, step 2b: the first acknowledgement after a timeout releases new data, not retransmissions.
#[test]
fn forward_rto_sends_new_data_first() {
    let mut s = Script::started();
    s.wait(700);
    let sent = s.ack_full(750, 1, &[], None, 700);
    assert!(sent.iter().all(|s| !s.2) && !sent.is_empty(), "{sent:?}");
    // A duplicate acknowledgement shows that the loss was real: retransmissions follow.
    let sent = s.ack_full(760, 1, &[(10, 11)], None, 700);
    assert!(sent.iter().any(|s| s.2), "{sent:?}");
}

/// RFC 3522 (Eifel): the echoed timestamp shows that the original arrived, and the window is restored.
#[test]
fn a_late_original_undoes_a_timeout() {
    let mut s = Script::started();
    s.wait(700);
    s.ack_full(750, 5, &[], None, 0);
    let info = s.info();
    assert_eq!((info.state, info.threshold), (State::Open, 0x7fff_ffff));
    assert!(info.window >= 10, "{info:?}");
}

/// RFC 3708: all retransmissions are reported as duplicates, so that the reduction is undone.
#[test]
fn duplicates_of_all_retransmissions_undo_a_reduction() {
    let mut s = Script::started();
    let sent = s.ack(100, 0, &[(1, 4)]);
    assert_eq!(sent[0], again(0));
    assert_eq!(s.info().threshold, 5);
    s.ack_full(110, 4, &[], None, 100);
    s.ack_full(200, 4, &[], Some(0), 100);
    assert!(s.info().threshold > 5 && s.info().window >= 10, "{:?}", s.info());
}

/// After reordering was seen, three segments beyond a hole are no proof of a loss (RFC 8985, 6.2, step 4).
#[test]
fn reordering_delays_the_retransmission() {
    let mut s = Script::started();
    s.ack(100, 0, &[(3, 4)]);
    // The hole is filled without a retransmission.
    s.ack(101, 4, &[]);
    let sent = s.ack(102, 4, &[(5, 9)]);
    assert!(sent.iter().all(|s| !s.2), "{sent:?}");
    let sent = s.wait(160);
    assert!(sent.iter().any(|(at, sent)| *sent == again(4) && (125..=145).contains(at)), "{sent:?}");
}

/// RFC 2861: the window halves for each timeout of idle time, down to the initial window.
#[test]
fn an_idle_connection_starts_again_with_the_initial_window() {
    let mut s = Script::with_segments(80);
    let mut acked = 0;
    for round in 1..=4 {
        s.sent();
        acked = (acked + (10 << (round - 1))).min(80);
        s.ack(100 * round, acked, &[]);
    }
    let before = s.info().window;
    assert!(before >= 40, "{before}");
    s.wait(20_000);
    s.write(10);
    s.sent();
    assert_eq!(s.info().window, 10);
}

/// An acknowledgement of bytes that were never sent changes nothing.
#[test]
fn an_acknowledgement_beyond_the_sent_bytes_is_ignored() {
    let mut s = Script::started();
    let before = s.info();
    assert_eq!(s.ack(100, 11, &[]), []);
    assert_eq!(s.info(), before);
}
