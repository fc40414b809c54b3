use super::*;
use results::Direction;

pub(crate) fn tcp_plan() -> TestPlan {
    TestPlan {
        transport: Transport::Tcp,
        directions: vec![Direction::Up],
        streams: 1,
        duration_ns: Some(10_000_000_000),
        bytes: None,
        interval_ns: 1_000_000_000,
        block_bytes: 65_536,
        window_bytes: None,
        congestion_control: Some("bpf_fast-2".into()),
        rate_bps: None,
        dscp: Some(63),
        mss_bytes: Some(1460),
        notsent_lowat_bytes: Some(131_072),
        zero_copy: true,
        seed: 0,
    }
}

fn udp_plan() -> TestPlan {
    TestPlan {
        transport: Transport::UdpPoisson,
        block_bytes: 24,
        rate_bps: Some(1),
        congestion_control: None,
        mss_bytes: None,
        notsent_lowat_bytes: None,
        zero_copy: false,
        ..tcp_plan()
    }
}

fn verdict(base: TestPlan, change: impl FnOnce(&mut TestPlan)) -> Result<(), PlanError> {
    let mut plan = base;
    change(&mut plan);
    validate_plan(&plan)
}

#[test]
fn ordinary_plans_pass() {
    assert_eq!(validate_plan(&tcp_plan()), Ok(()));
    assert_eq!(validate_plan(&udp_plan()), Ok(()));
    assert_eq!(verdict(tcp_plan(), |p| p.directions = vec![Direction::Down, Direction::Up]), Ok(()));
    assert_eq!(verdict(tcp_plan(), |p| (p.duration_ns, p.bytes) = (None, Some(1))), Ok(()));
}

#[test]
fn bounds_hold_on_both_sides() {
    type Set = fn(&mut TestPlan, u64);
    let tcp: [(Set, u64, u64); 8] = [
        (|p, v| p.streams = v as u32, 1, 128),
        (|p, v| p.block_bytes = v, 16, 16 * 1024 * 1024),
        (|p, v| p.interval_ns = v, 10_000_000, u64::MAX),
        (|p, v| p.duration_ns = Some(v), 1, u64::MAX),
        (|p, v| p.window_bytes = Some(v), 1, i32::MAX as u64),
        (|p, v| p.mss_bytes = Some(v as u32), 88, 32_767),
        (|p, v| p.rate_bps = Some(v), 1, u64::MAX),
        (|p, v| p.dscp = Some(v as u8), 0, 63),
    ];
    for (set, min, max) in tcp {
        for (value, good) in
            [(Some(min), true), (Some(max), true), (min.checked_sub(1), false), (max.checked_add(1), false)]
        {
            let Some(value) = value else { continue };
            assert_eq!(verdict(tcp_plan(), |p| set(p, value)).is_ok(), good, "{value} in {min}..={max}");
        }
    }
    for (size, good) in [(23, false), (24, true), (65_507, true), (65_508, false)] {
        assert_eq!(verdict(udp_plan(), |p| p.block_bytes = size).is_ok(), good, "{size}");
    }
}

#[test]
fn each_contradiction_has_its_error() {
    use PlanError as E;
    assert_eq!(verdict(tcp_plan(), |p| p.duration_ns = None), Err(E::NoEnd));
    assert_eq!(verdict(tcp_plan(), |p| p.bytes = Some(1)), Err(E::TwoEnds));
    assert_eq!(verdict(tcp_plan(), |p| p.directions.clear()), Err(E::NoDirection));
    assert_eq!(verdict(tcp_plan(), |p| p.directions = vec![Direction::Up; 2]), Err(E::RepeatedDirection));
    assert_eq!(verdict(udp_plan(), |p| p.rate_bps = None), Err(E::UdpWithoutRate));
    assert_eq!(verdict(udp_plan(), |p| p.zero_copy = true), Err(E::TcpOnly("zero copy")));
    for name in ["", "Cubic", "a b", "../etc", "sixteen_letters_", "c\u{fc}bic"] {
        assert_eq!(
            verdict(tcp_plan(), |p| p.congestion_control = Some(name.into())),
            Err(E::CongestionControl),
            "{name}"
        );
    }
}

#[test]
fn range_errors_state_value_and_range() {
    let error = verdict(tcp_plan(), |p| p.streams = 500).unwrap_err();
    assert_eq!(error.to_string(), "number of streams = 500 is out of range (1-128)");
    let error = verdict(tcp_plan(), |p| p.block_bytes = 8).unwrap_err();
    assert_eq!(error.to_string(), "block size = 8 is out of range (16-16777216 bytes)");
}

#[test]
fn probing_needs_a_byte_limit_one_stream_and_one_direction() {
    let probe = || TestPlan {
        transport: Transport::Probe,
        duration_ns: None,
        bytes: Some(1),
        streams: 1,
        directions: vec![Direction::Down],
        ..udp_plan()
    };
    assert_eq!(validate_plan(&probe()), Ok(()));
    assert_eq!(verdict(probe(), |p| (p.duration_ns, p.bytes) = (Some(1), None)), Err(PlanError::ProbeWithoutBytes));
    assert!(verdict(probe(), |p| p.streams = 2).is_err());
    assert!(verdict(probe(), |p| p.directions = vec![Direction::Down, Direction::Up]).is_err());
}
