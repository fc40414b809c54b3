use super::*;
use results::{Limit, LimitVerdict, TcpState};
use units::{Duration, Rate};

const MS: u64 = 1_000_000;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// One second of a stream on a 100 ms path that moved 12.5 MB (100 Mb/s), all the time waiting for the socket.
fn busy() -> SenderEvidence {
    let state = |busy_ns| TcpState {
        busy_ns,
        cwnd_bytes: 1_250_000,
        srtt_ns: 100 * MS,
        mss_bytes: 1448,
        snd_wnd_bytes: 6_000_000,
        unacked_segments: 860,
        notsent_bytes: 500_000,
        ..TcpState::default()
    };
    let (before, after) = (state(5_000 * MS), state(6_000 * MS));
    let (interval, blocked, bytes) = (ms(1000), ms(950), 12_500_000);
    SenderEvidence { interval, before, after, blocked, bytes, ..Default::default() }
}

fn with(change: impl FnOnce(&mut SenderEvidence)) -> SenderEvidence {
    let mut e = busy();
    change(&mut e);
    e
}

fn receiver(cpu_ms: u64) -> ReceiverEvidence {
    ReceiverEvidence {
        thread_cpu: ms(cpu_ms),
        busiest_cpu: Some(0.5),
        interval: ms(1000),
        ..ReceiverEvidence::default()
    }
}

fn rwnd_limited(window: u64) -> SenderEvidence {
    with(|e| {
        e.after.rwnd_limited_ns = 970 * MS;
        e.after.snd_wnd_bytes = window;
        e.bytes = window * 10;
    })
}

/// Name of the case, observations of the sender and of the receiver, the verdict, and required parts of its evidence.
type Case = (&'static str, SenderEvidence, Option<ReceiverEvidence>, Limit, &'static [&'static str]);

#[test]
fn each_limit_is_detected_by_its_evidence() {
    for (name, sender, receiver, limit, mentions) in network_cases().into_iter().chain(host_cases()) {
        let v = judge(&sender, receiver.as_ref());
        assert_eq!(v.limit, limit, "{name}: {v:?}");
        assert!((0.0..=1.0).contains(&v.share), "{name}: {v:?}");
        for m in mentions {
            assert!(v.evidence.contains(m), "{name}: `{m}` is not in `{}`", v.evidence);
        }
    }
}

fn network_cases() -> Vec<Case> {
    vec![
        // 64 KiB per 100 ms is 5.243 Mb/s, far below what cwnd allows; the receiver sleeps.
        (
            "small receive window",
            rwnd_limited(65_536),
            Some(receiver(120)),
            Limit::ReceiveWindow,
            &["97 % of 1.000 s", "65.54 kB", "5.243 Mb/s", "12 % CPU"],
        ),
        ("small receive window, receiver unknown", rwnd_limited(65_536), None, Limit::ReceiveWindow, &["unknown"]),
        (
            "receiver computes all the time",
            rwnd_limited(65_536),
            Some(receiver(930)),
            Limit::ReceiverCpu,
            &["93 % CPU"],
        ),
        // The buffer of 6 MB is full: less than two segments are advertised although the thread is idle.
        ("receiver reads slowly", rwnd_limited(1_000), Some(receiver(10)), Limit::ReceiverApplication, &["unread"]),
        (
            "small send buffer",
            with(|e| e.after.sndbuf_limited_ns = 800 * MS),
            None,
            Limit::SendBuffer,
            &["80 % of 1.000 s", "1.245 MB", "1.250 MB"],
        ),
        // A partial segment waits behind 20 in flight, and the thread waits for the buffer.
        (
            "small send buffer with a partial segment",
            with(|e| (e.after.unacked_segments, e.after.notsent_bytes) = (20, 700)),
            None,
            Limit::SendBuffer,
            &["28.96 kB", "1.250 MB"],
        ),
        (
            "loss in the interval",
            with(|e| e.after.retransmits = 7),
            None,
            Limit::Loss,
            &["7 retransmits", "cwnd 1.250 MB"],
        ),
        ("marks", with(|e| e.after.delivered_ce = 3), None, Limit::Loss, &["3 congestion marks"]),
        ("timeout, nothing moves", with(|e| (e.after.ca_state, e.bytes) = (4, 0)), None, Limit::Loss, &["4"]),
        // Lost in an earlier interval; ssthresh 1.0 MB stands for 1.43 MB before, and cwnd is 1.25 MB.
        (
            "window not yet back after loss",
            with(|e| {
                e.before.retransmits = 7;
                e.after.retransmits = 7;
                e.after.ssthresh_bytes = Some(1_000_000);
            }),
            None,
            Limit::Loss,
            &["0 retransmits", "1.429 MB", "ssthresh 1.000 MB"],
        ),
        ("slow start", busy(), None, Limit::CongestionWindow, &["slow start", "100 % of 1.000 s"]),
        // HyStart left slow start: ssthresh without any loss since the connection began.
        (
            "window grows without loss",
            with(|e| e.after.ssthresh_bytes = Some(1_200_000)),
            None,
            Limit::CongestionWindow,
            &["ssthresh 1.200 MB"],
        ),
    ]
}

fn host_cases() -> Vec<Case> {
    // 1.25 MB in 100 us would be 100 Gb/s; 100 Mb/s leaves the window empty.
    let short_path = |change: fn(&mut SenderEvidence)| {
        with(|e| {
            e.after.srtt_ns = MS / 10;
            e.after.retransmits = 2;
            change(e);
        })
    };
    vec![
        (
            "no CPU left here",
            short_path(|e| (e.busiest_cpu, e.blocked) = (Some(1.0), ms(300))),
            None,
            Limit::SenderCpu,
            &["100.0 Gb/s"],
        ),
        ("no CPU left there", short_path(|_| ()), Some(receiver(930)), Limit::ReceiverCpu, &["93 %"]),
        ("loss on a short path of idle hosts", short_path(|_| ()), Some(receiver(10)), Limit::Loss, &["2"]),
        // 100 Mb/s of goodput are 104.6 Mb/s with 66 header bytes on 1448.
        (
            "at the ceiling, headers counted",
            with(|e| e.pacing_set = Some(Rate::from_bps(105_000_000))),
            None,
            Limit::Pacing,
            &["100.0 Mb/s of the set ceiling 105.0 Mb/s"],
        ),
        (
            "at the ceiling although the application makes the pauses",
            with(|e| (e.pacing_set, e.app_idle) = (Some(Rate::from_bps(100_000_000)), ms(900))),
            None,
            Limit::Pacing,
            &[],
        ),
        (
            "far below the ceiling",
            with(|e| e.pacing_set = Some(Rate::from_bps(200_000_000))),
            None,
            Limit::CongestionWindow,
            &[],
        ),
        // BBR: the pacing rate is the rate, in flight is half of cwnd.
        (
            "BBR, at its own estimate",
            with(|e| {
                e.before.pacing_rate_bps = Some(99_000_000);
                e.after.pacing_rate_bps = Some(103_000_000);
                e.after.cwnd_bytes = 2_500_000;
                e.is_paced = true;
            }),
            None,
            Limit::Bottleneck,
            &["path full: 100.0 Mb/s", "99.00 Mb/s to 103.0 Mb/s", "50 % of cwnd"],
        ),
        // The same numbers without pacing: the kernel computes the rate for a qdisc that does not exist.
        (
            "a pacing rate that is not enforced",
            with(|e| {
                e.before.pacing_rate_bps = Some(99_000_000);
                e.after.pacing_rate_bps = Some(103_000_000);
                e.after.cwnd_bytes = 2_500_000;
                e.after.notsent_bytes = 1_000_000;
            }),
            None,
            Limit::CongestionWindow,
            &[],
        ),
        (
            "receiver's host is busy with others",
            rwnd_limited(65_536),
            Some(ReceiverEvidence {
                thread_cpu: ms(300),
                busiest_cpu: Some(1.0),
                interval: ms(1000),
                ..ReceiverEvidence::default()
            }),
            Limit::ReceiverCpu,
            &["busiest CPU 100 %"],
        ),
        // CUBIC sets 1.2 x cwnd / srtt and fills its window.
        (
            "a pacing rate that does not bind",
            with(|e| (e.before.pacing_rate_bps, e.after.pacing_rate_bps) = (Some(120_000_000), Some(120_000_000))),
            None,
            Limit::CongestionWindow,
            &[],
        ),
        (
            "sender computes and never waits",
            with(|e| (e.thread_cpu, e.blocked) = (ms(960), ms(0))),
            None,
            Limit::SenderCpu,
            &["96 % CPU", "socket 0 %"],
        ),
        (
            "sender computes much but waits too",
            with(|e| (e.thread_cpu, e.blocked) = (ms(900), ms(400))),
            None,
            Limit::CongestionWindow,
            &[],
        ),
        (
            "application pauses",
            with(|e| {
                (e.app_idle, e.blocked, e.bytes) = (ms(800), ms(50), 100_000);
                e.after.busy_ns = e.before.busy_ns + 200 * MS;
            }),
            None,
            Limit::Application,
            &["nothing to send 80 %", "outstanding 20 %"],
        ),
        (
            "application-limited by the kernel's report",
            with(|e| (e.blocked, e.after.delivery_rate_app_limited) = (ms(0), true)),
            None,
            Limit::Application,
            &[],
        ),
        (
            "neither ran nor waited on a saturated host",
            with(|e| {
                (e.blocked, e.thread_cpu, e.busiest_cpu) = (ms(0), ms(300), Some(1.0));
                e.after.busy_ns = e.before.busy_ns + 300 * MS;
            }),
            None,
            Limit::SenderCpu,
            &["waited for a CPU 70 %"],
        ),
        ("no time", with(|e| e.interval = Duration::ZERO), None, Limit::Unknown, &["0.000 s"]),
        (
            "nothing happened",
            SenderEvidence { interval: ms(1000), ..Default::default() },
            None,
            Limit::Unknown,
            &["0 B"],
        ),
    ]
}

#[test]
fn counters_that_go_backwards_are_no_evidence() {
    let e = with(|e| std::mem::swap(&mut e.before, &mut e.after));
    let v = judge(&e, Some(&ReceiverEvidence::default()));
    assert!((0.0..=1.0).contains(&v.share));
    let absurd = TcpState { unacked_segments: u64::MAX, mss_bytes: u64::MAX, busy_ns: u64::MAX, ..TcpState::default() };
    judge(&with(|e| e.after = absurd), None);
}

fn vote(limit: Limit, share: f64, text: &str) -> LimitVerdict {
    LimitVerdict { limit, share, evidence: text.to_owned() }
}

#[test]
fn streams_vote_with_their_bytes() {
    let verdicts = [
        (vote(Limit::ReceiveWindow, 0.9, "small"), 100),
        (vote(Limit::Loss, 0.8, "medium"), 300),
        (vote(Limit::Loss, 0.6, "large"), 600),
    ];
    let v = combine(&verdicts).unwrap();
    assert_eq!(v.limit, Limit::Loss);
    // (0.8 x 300 + 0.6 x 600) / 1000.
    assert!((v.share - 0.6).abs() < 1e-9);
    assert_eq!(v.evidence, "2 of 3 streams (90 % of the bytes), the largest: large");
}

#[test]
fn one_stream_gives_the_verdict_and_no_stream_gives_none() {
    let v = vote(Limit::Application, 0.4, "alone");
    assert_eq!(combine(&[(v.clone(), 0)]), Some(v));
    assert_eq!(combine(&[]), None);
}

#[test]
fn stalled_and_unknown_streams_do_not_hide_a_known_limit() {
    let unknown = vote(Limit::Unknown, 0.0, "?");
    let stalled = vote(Limit::Loss, 1.0, "timeout");
    assert_eq!(combine(&[(unknown.clone(), 0), (stalled, 0)]).unwrap().limit, Limit::Loss);
    assert_eq!(combine(&[(unknown.clone(), 9), (unknown, 9)]).unwrap().limit, Limit::Unknown);
}
