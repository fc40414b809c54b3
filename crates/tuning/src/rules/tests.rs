//! Tests of the rules, compared with calculated and documented values.

use std::collections::BTreeMap;
use std::time::Duration;

use results::tune::{Judgement, TuneRow};
use units::{Bytes, Rate};

use crate::{
    Device, Facts, Interrupt, Offload, OffloadState, Path, PlanError, Reading, Rings, Setting, Softnet, advise,
    planned, summary,
};

const GIGABIT: u64 = 1_000_000_000;

fn path(bps: u64, rtt_ms: u64) -> Path {
    Path { rate: Rate::from_bps(bps), rtt: Duration::from_millis(rtt_ms) }
}

/// A host with 16 GB, Linux 6.12 and the kernel's defaults.
fn defaults() -> Facts {
    let values = [
        ("net.ipv4.tcp_rmem", "4096\t131072\t6291456"),
        ("net.ipv4.tcp_wmem", "4096\t16384\t4194304"),
        ("net.ipv4.tcp_moderate_rcvbuf", "1"),
        ("net.ipv4.tcp_window_scaling", "1"),
        ("net.ipv4.tcp_adv_win_scale", "1"),
        ("net.core.rmem_max", "212992"),
        ("net.core.wmem_max", "212992"),
        ("net.core.rmem_default", "212992"),
        ("net.ipv4.tcp_mem", "188319\t251094\t376638"),
        ("net.core.optmem_max", "131072"),
        ("net.ipv4.tcp_notsent_lowat", "4294967295"),
        ("net.ipv4.tcp_limit_output_bytes", "1048576"),
        ("net.ipv4.tcp_congestion_control", "cubic"),
        ("net.ipv4.tcp_available_congestion_control", "reno cubic"),
        ("net.ipv4.tcp_mtu_probing", "0"),
        ("net.ipv4.tcp_no_metrics_save", "0"),
        ("net.ipv4.tcp_sack", "1"),
        ("net.ipv4.tcp_timestamps", "1"),
        ("net.ipv4.tcp_slow_start_after_idle", "1"),
        ("net.core.default_qdisc", "fq_codel"),
        ("net.core.netdev_max_backlog", "1000"),
        ("net.core.netdev_budget", "300"),
        ("net.ipv4.ip_forward", "0"),
    ];
    Facts {
        sysctls: values.into_iter().map(|(k, v)| (k.to_owned(), Reading::Own(v.to_owned()))).collect(),
        kernel: (6, 12),
        has_fq: Some(true),
        page: Bytes::new(4096),
        memory: Some(Bytes::new(16_000_000_000)),
        softnet: Some(Softnet { processed: 1_000_000, dropped: 0, squeezed: 0 }),
        governors: Some(vec!["performance".to_owned(); 4]),
        cpus: 4,
        irqbalance: Some(true),
        device: Some(device()),
    }
}

fn device() -> Device {
    let on = OffloadState { on: true, changeable: true };
    Device {
        name: "eth0".to_owned(),
        driver: Some("ixgbe".to_owned()),
        speed: Some(Rate::from_bps(10 * GIGABIT)),
        mtu: 1500,
        queue_length: 1000,
        qdiscs: Some(vec!["mq".to_owned(), "fq_codel".to_owned()]),
        offloads: Offload::ALL.into_iter().map(|o| (o, on)).collect(),
        lro: Some(false),
        tx_checksum: Some(on),
        rings: Some(Rings { receive: 512, receive_max: 4096, send: 512, send_max: 4096 }),
        received_drops: Some(0),
        interrupts: Some((0..4).map(|n| Interrupt { number: 40 + n, cpus: n.to_string() }).collect()),
        rps: Some(vec!["0".to_owned(); 4]),
        xps: None,
    }
}

fn with(key: &str, value: &str) -> Facts {
    let mut facts = defaults();
    facts.sysctls.insert(key.to_owned(), Reading::Own(value.to_owned()));
    facts
}

fn with_device(change: impl FnOnce(&mut Device)) -> Facts {
    let mut facts = defaults();
    if let Some(device) = &mut facts.device {
        change(device);
    }
    facts
}

fn row(path: &Path, facts: &Facts, key: &str) -> TuneRow {
    let found = advise(path, facts).into_iter().find(|r| r.key == key);
    found.unwrap_or_else(|| panic!("no row {key}"))
}

#[test]
fn six_megabytes_of_receive_buffer_are_a_window_of_three() {
    // 6291456 / 2 = 3145728 bytes per 100 ms give 251.7 Mb/s. The bandwidth-delay product at 10 Gb/s is 125 MB, and
    // twice that in pages of 4096 is required.
    let row = row(&path(10 * GIGABIT, 100), &defaults(), "net.ipv4.tcp_rmem");
    assert_eq!(row.judgement, Judgement::Change);
    assert_eq!(row.limit_bps, Some(251_658_240));
    assert_eq!(row.advised.as_deref(), Some("4096 131072 250003456"), "the first two stay");
    assert_eq!(250_003_456_u64, 250_000_000_u64.div_ceil(4096) * 4096);
    assert_eq!(row.effect.as_deref(), Some("window-limited to about 252 Mb/s at 100 ms, on a path of 10 Gb/s"));
    let paper = row.paper_2014.unwrap();
    assert!(paper.differs && paper.advised.ends_with("67108864"));
}

#[test]
fn before_linux_6_6_the_scale_determines_the_share_of_the_window() {
    // ip-sysctl.rst: bytes/2^n of the buffer are overhead if n > 0, else bytes - bytes/2^-n.
    for (scale, window) in [("1", 3_145_728), ("2", 4_718_592), ("-2", 1_572_864), ("0", 6_291_456)] {
        let mut facts = with("net.ipv4.tcp_adv_win_scale", scale);
        facts.kernel = (5, 15);
        let limit = row(&path(10 * GIGABIT, 100), &facts, "net.ipv4.tcp_rmem").limit_bps;
        assert_eq!(limit, Some(window * 8 * 10), "scale {scale}");
        facts.kernel = (6, 6);
        let limit = row(&path(10 * GIGABIT, 100), &facts, "net.ipv4.tcp_rmem").limit_bps;
        assert_eq!(limit, Some(251_658_240), "without effect since");
    }
    let mut facts = with("net.ipv4.tcp_adv_win_scale", "-2");
    facts.kernel = (5, 15);
    let advised = row(&path(GIGABIT, 100), &facts, "net.ipv4.tcp_rmem").advised.unwrap();
    assert_eq!(advised, "4096 131072 50003968", "four times 12.5 MB, in whole pages");
}

#[test]
fn a_sufficient_buffer_is_not_changed() {
    // The path of the shaping paper: 1 Gb/s at 187 ms is 23.375 MB, and its 64 MB cover twice that.
    let paper_path = path(GIGABIT, 187);
    assert_eq!(paper_path.bdp(), Bytes::new(23_375_000));
    for key in ["net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"] {
        let row = row(&paper_path, &with(key, "4096 87380 67108864"), key);
        assert_eq!((row.judgement, row.advised), (Judgement::Good, None), "{key}");
    }
    // The 16 MB of tuned do not cover it.
    assert_eq!(
        row(&paper_path, &with("net.ipv4.tcp_rmem", "4096 131072 16777216"), "net.ipv4.tcp_rmem").judgement,
        Judgement::Change
    );
}

#[test]
fn no_recommendation_exceeds_the_limits_of_kernel_and_tcp() {
    // 400 Gb/s at 200 ms are 10 GB; the maximum window is 1 GiB, and the maximum buffer 2^31 - 1.
    let row = row(&path(400 * GIGABIT, 200), &defaults(), "net.ipv4.tcp_rmem");
    let most: u64 = row.advised.unwrap().split(' ').next_back().unwrap().parse().unwrap();
    assert!((2_147_418_112..=2_147_483_647).contains(&most), "{most}");
    assert!(row.why.contains("several"), "{}", row.why);
}

#[test]
fn explicit_buffers_need_one_product_since_the_kernel_doubles_them() {
    let row = row(&path(GIGABIT, 100), &defaults(), "net.core.rmem_max");
    assert_eq!(row.advised.as_deref(), Some("12500992"), "12.5 MB in whole pages");
    // 212992 bytes per 100 ms.
    assert!(row.effect.unwrap().contains("17 Mb/s"));
}

#[test]
fn memory_of_all_connections_is_raised_only_if_the_machine_has_enough() {
    let ocean = path(10 * GIGABIT, 100);
    // 251094 pages are 1.03 GB; the two buffers of one connection are 500 MB, and the same again makes 1 GB.
    assert_eq!(row(&ocean, &defaults(), "net.ipv4.tcp_mem").judgement, Judgement::Good);
    let small = with("net.ipv4.tcp_mem", "20000 26000 40000");
    let row_ = row(&ocean, &small, "net.ipv4.tcp_mem");
    let advised: Vec<u64> = row_.advised.unwrap().split(' ').map(|n| n.parse().unwrap()).collect();
    assert!(advised[1] * 4096 >= 1_000_000_000 && advised[0] < advised[1] && advised[1] < advised[2], "{advised:?}");
    let poor = Facts { memory: Some(Bytes::new(2_000_000_000)), ..small };
    assert_eq!(row(&ocean, &poor, "net.ipv4.tcp_mem").judgement, Judgement::Unknown);
}

#[test]
fn reno_regains_its_window_one_segment_a_round_trip() {
    // 12.5 MB are 8633 segments of 1448 bytes; half of them, one per 100 ms, take 432 s.
    let row_ =
        row(&path(GIGABIT, 100), &with("net.ipv4.tcp_congestion_control", "reno"), "net.ipv4.tcp_congestion_control");
    assert_eq!(row_.advised.as_deref(), Some("cubic"));
    assert!(row_.effect.unwrap().starts_with("432 s"), "8632.6 / 2 * 0.1 s");
    for known in ["cubic", "bbr", "htcp"] {
        let facts = with("net.ipv4.tcp_congestion_control", known);
        assert_eq!(row(&path(GIGABIT, 100), &facts, "net.ipv4.tcp_congestion_control").judgement, Judgement::Good);
    }
    let facts = with("net.ipv4.tcp_congestion_control", "nobody_knows");
    assert_eq!(row(&path(GIGABIT, 100), &facts, "net.ipv4.tcp_congestion_control").judgement, Judgement::Unknown);
}

#[test]
fn switches_have_one_recommended_value() {
    for (key, good, bad) in [
        ("net.ipv4.tcp_sack", "1", "0"),
        ("net.ipv4.tcp_timestamps", "1", "0"),
        ("net.ipv4.tcp_timestamps", "2", "0"),
        ("net.ipv4.tcp_window_scaling", "1", "0"),
        ("net.ipv4.tcp_moderate_rcvbuf", "1", "0"),
        ("net.ipv4.tcp_mtu_probing", "1", "0"),
        ("net.ipv4.tcp_mtu_probing", "2", "0"),
        ("net.ipv4.tcp_no_metrics_save", "1", "0"),
        ("net.ipv4.tcp_slow_start_after_idle", "0", "1"),
        ("net.ipv4.tcp_notsent_lowat", "131072", "16384"),
        ("net.core.default_qdisc", "fq", "pfifo_fast"),
    ] {
        let judged = |value| row(&path(GIGABIT, 100), &with(key, value), key).judgement;
        assert_eq!((judged(good), judged(bad)), (Judgement::Good, Judgement::Change), "{key}");
    }
}

#[test]
fn a_queue_grows_only_after_drops() {
    let row_of = |dropped, squeezed, key| {
        let softnet = Some(Softnet { processed: 1_000_000, dropped, squeezed });
        row(&path(GIGABIT, 100), &Facts { softnet, ..defaults() }, key)
    };
    assert_eq!(row_of(0, 0, "net.core.netdev_max_backlog").judgement, Judgement::Good);
    assert_eq!(row_of(7, 0, "net.core.netdev_max_backlog").advised.as_deref(), Some("2000"));
    assert_eq!(row_of(0, 1000, "net.core.netdev_budget").judgement, Judgement::Good, "one in a thousand packets");
    assert_eq!(row_of(0, 1001, "net.core.netdev_budget").advised.as_deref(), Some("600"));
    let facts = Facts { softnet: None, ..defaults() };
    assert_eq!(row(&path(GIGABIT, 100), &facts, "net.core.netdev_max_backlog").judgement, Judgement::Unknown);
}

#[test]
fn a_fifo_longer_than_a_round_trip_is_shortened_and_no_other_queue() {
    let fifo = |length, speed| {
        with_device(|d| {
            d.qdiscs = Some(vec!["pfifo_fast".to_owned()]);
            d.queue_length = length;
            d.speed = Some(Rate::from_bps(speed));
        })
    };
    let judged = |facts: &Facts| row(&path(GIGABIT, 100), facts, "eth0:txqueuelen");
    // 10000 packets of 1514 bytes: 121 ms at 1 Gb/s, 12 ms at 10 Gb/s.
    let long = judged(&fifo(10_000, GIGABIT));
    assert_eq!(long.advised.as_deref(), Some("1000"));
    assert_eq!(long.effect.as_deref(), Some("a full queue of packets of 1514 bytes waits 121 ms at 1 Gb/s"));
    assert_eq!(judged(&fifo(10_000, 10 * GIGABIT)).judgement, Judgement::Good);
    assert_eq!(judged(&fifo(100, GIGABIT)).judgement, Judgement::Good);
    assert_eq!(
        judged(&with_device(|d| d.queue_length = 10_000)).judgement,
        Judgement::Good,
        "fq_codel does not use it"
    );
}

#[test]
fn offloads_are_enabled_if_the_device_supports_them() {
    let tso = |on, changeable| {
        with_device(|d| {
            d.offloads.insert(Offload::Tso, OffloadState { on, changeable });
        })
    };
    let judged = |facts: &Facts| row(&path(GIGABIT, 100), facts, "eth0:tso");
    let off = judged(&tso(false, true));
    assert_eq!((off.judgement, off.advised.as_deref(), off.applicable), (Judgement::Change, Some("on"), true));
    assert!(off.paper_2014.unwrap().why.contains("-K sets"), "the paper's command only reads");
    assert_eq!(judged(&tso(false, false)).judgement, Judgement::Good);
    let unread = judged(&with_device(|d| d.offloads = BTreeMap::new()));
    assert_eq!((unread.judgement, unread.found), (Judgement::CannotBeRead, None));
    let mut forwarding = with_device(|d| d.lro = Some(true));
    forwarding.sysctls.insert("net.ipv4.ip_forward".to_owned(), Reading::Own("1".to_owned()));
    assert_eq!(row(&path(GIGABIT, 100), &forwarding, "eth0:lro").judgement, Judgement::Change);
}

#[test]
fn rings_interrupts_and_governor_are_advice_only() {
    let fast = path(10 * GIGABIT, 100);
    let mut facts = with_device(|d| {
        d.received_drops = Some(3);
        d.interrupts = Some((0..4).map(|n| Interrupt { number: n, cpus: "0".to_owned() }).collect());
    });
    facts.governors = Some(vec!["powersave".to_owned()]);
    for key in ["eth0:rings", "eth0:interrupts", "cpu:governor"] {
        let row = row(&fast, &facts, key);
        assert_eq!((row.judgement, row.applicable), (Judgement::Change, false), "{key}");
        let refused = planned(&[row], &[key.to_owned()]).unwrap_err();
        assert_eq!(refused, PlanError::AdviceOnly(key.to_owned()));
    }
    assert_eq!(
        row(&path(GIGABIT, 100), &facts, "eth0:interrupts").judgement,
        Judgement::Good,
        "one CPU carries 1 Gb/s"
    );
}

#[test]
fn settings_of_the_host_are_marked_and_never_planned() {
    let mut facts = defaults();
    facts.sysctls.insert("net.core.rmem_max".to_owned(), Reading::OfHost("212992".to_owned()));
    facts.sysctls.insert("net.core.default_qdisc".to_owned(), Reading::HiddenInNamespace);
    facts.sysctls.insert("net.ipv4.tcp_mem".to_owned(), Reading::Absent);
    facts.sysctls.insert("net.ipv4.tcp_sack".to_owned(), Reading::Failed("no permission".to_owned()));
    let ocean = path(10 * GIGABIT, 100);
    let judged = |key| row(&ocean, &facts, key).judgement;
    assert_eq!(judged("net.core.rmem_max"), Judgement::BelongsToHost);
    assert_eq!(judged("net.core.default_qdisc"), Judgement::BelongsToHost);
    assert_eq!(judged("net.ipv4.tcp_mem"), Judgement::CannotBeRead);
    assert_eq!(row(&ocean, &facts, "net.ipv4.tcp_sack").why, "no permission");
    let rows = advise(&ocean, &facts);
    let changes = planned(&rows, &[]).unwrap();
    assert!(changes.iter().all(|c| c.setting != Setting::Sysctl("net.core.rmem_max".to_owned())));
    assert_eq!(
        planned(&rows, &["net.core.rmem_max".to_owned()]),
        Err(PlanError::OfHost("net.core.rmem_max".to_owned()))
    );
    assert_eq!(summary(&rows).of_host, 1, "the hidden one may be right as it is");
}

#[test]
fn every_row_has_its_reason_and_source_and_the_planned_value_resolves_it() {
    let ocean = path(10 * GIGABIT, 100);
    let mut facts = defaults();
    let rows = advise(&ocean, &facts);
    assert!(rows.iter().all(|r| r.why.ends_with('.') && !r.source.is_empty()));
    let changes = planned(&rows, &[]).unwrap();
    assert_eq!(changes.len(), rows.iter().filter(|r| r.applicable).count());
    for change in changes {
        if let Setting::Sysctl(key) = change.setting {
            facts.sysctls.insert(key, Reading::Own(change.after));
        }
    }
    assert!(planned(&advise(&ocean, &facts), &[]).unwrap().is_empty(), "advice that is followed asks for no more");
    assert_eq!(planned(&rows, &["no.such".to_owned()]), Err(PlanError::NoSuchRow("no.such".to_owned())));
}
