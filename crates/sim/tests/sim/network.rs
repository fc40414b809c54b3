//! Links, routes, LANs, schedules and datagrams.

use units::Duration;

use crate::{bytes_between, read, world};

const TWO_LINKS: &str = "duration = \"20s\"\nnodes = [\"a\", \"r\", \"b\"]\n\
    [links.one]\nbetween = [\"a\", \"r\"]\nrate = \"100Mb/s\"\ndelay = \"5ms\"\n\
    [links.two]\nbetween = [\"r\", \"b\"]\nrate = \"50Mb/s\"\ndelay = \"15ms\"\nqueue = \"1 bdp\"\n";

/// The slower link carries 1448 bytes of payload in 1538 bytes on the wire.
#[test]
fn a_flow_fills_the_slowest_link_of_its_path() {
    let mut world = world(&format!("{TWO_LINKS}[flows.f]\nfrom = \"a\"\nto = \"b\"\n"));
    let rate = bytes_between(&mut world, 0, 5, 15) * 8.0 / 10.0;
    let expected = 50e6 * 1448.0 / 1538.0;
    assert!((rate / expected - 1.0).abs() < 2e-3, "{rate} b/s, expected {expected}");
    // The queue holds 40 ms at most, and CUBIC fills it.
    let srtt = world.flow(0).srtt.unwrap();
    assert!((Duration::from_millis(40)..Duration::from_millis(82)).contains(&srtt), "{srtt:?}");
}

/// Jumbo frames: 8948 bytes of payload in 9038 bytes on the wire.
#[test]
fn the_segment_size_follows_the_mtu() {
    let text = "duration = \"20s\"\nnodes = [\"a\", \"b\"]\n[links.l]\nbetween = [\"a\", \"b\"]\nrate = \"1Gb/s\"\n\
                delay = \"10ms\"\nqueue = \"2 bdp\"\nmtu = 9000\n[flows.f]\nfrom = \"a\"\nto = \"b\"\n";
    let mut world = world(text);
    let rate = bytes_between(&mut world, 0, 5, 15) * 8.0 / 10.0;
    let expected = 1e9 * 8948.0 / 9038.0;
    // Bytes beyond a gap count once the gap is filled: up to a window of 30 ms in 10 s.
    assert!((rate / expected - 1.0).abs() < 3e-3, "{rate} b/s, expected {expected}");
}

/// Three members of a LAN: each pair has the full rate of its ports.
#[test]
fn a_lan_carries_flows_between_its_members() {
    let text = "duration = \"10s\"\nnodes = [\"a\", \"b\", \"c\"]\n[lans.l]\nmembers = [\"a\", \"b\", \"c\"]\nrate = \"20Mb/s\"\n\
                delay = \"2ms\"\n[flows.one]\nfrom = \"a\"\nto = \"b\"\n[flows.two]\nfrom = \"b\"\nto = \"c\"\n";
    let mut world = world(text);
    for flow in 0..2 {
        world.run_until(Duration::from_secs(2));
        assert!(world.flow(flow).bytes > 0);
    }
    let before = [0, 1].map(|flow| world.flow(flow).bytes);
    world.run_until(Duration::from_secs(8));
    for (flow, before) in before.into_iter().enumerate() {
        let rate = (world.flow(flow).bytes - before) as f64 * 8.0 / 6.0;
        // Acknowledgements of the other flow share each port: 84 bytes on the wire for two packets.
        let expected = 20e6 * 1448.0 / (1538.0 + 90.0 / 2.0);
        assert!((rate / expected - 1.0).abs() < 0.02, "flow {flow}: {rate} b/s, expected {expected}");
    }
}

#[test]
fn datagrams_arrive_at_their_rate_and_losses_are_counted() {
    let text = "duration = \"20s\"\nseed = 7\nnodes = [\"a\", \"b\"]\n[links.l]\nbetween = [\"a\", \"b\"]\nrate = \"10Mb/s\"\n\
                delay = \"10ms\"\nloss = \"1%\"\n[flows.f]\nfrom = \"a\"\nto = \"b\"\nprotocol = \"udp\"\nrate = \"5Mb/s\"\n\
                block = \"1000B\"\n";
    let mut world = world(text);
    world.run_until(Duration::from_secs(21));
    let state = world.flow(0);
    // 5 Mb/s of 1000-byte payloads for 20 s are 12500 datagrams; the loss of 1 % has a standard deviation of 11.
    assert_eq!(state.datagrams.unwrap() + state.lost.unwrap(), 12_500);
    assert!(state.lost.unwrap().abs_diff(125) < 45, "{state:?}");
}

/// A schedule halves the rate: the flow follows.
#[test]
fn a_schedule_changes_the_links() {
    let text = format!(
        "{TWO_LINKS}[flows.f]\nfrom = \"a\"\nto = \"b\"\n[[schedule]]\nat = \"10s\"\nlink = \"two\"\nrate = \"25Mb/s\"\n"
    );
    let mut world = world(&text);
    let before = bytes_between(&mut world, 0, 5, 10) * 8.0 / 5.0;
    let after = bytes_between(&mut world, 0, 12, 20) * 8.0 / 8.0;
    assert!((after / before - 0.5).abs() < 0.01, "{before} b/s, then {after}");
}

/// The same seed gives the same run; another seed loses other packets.
#[test]
fn a_seed_determines_a_run() {
    let text = format!("{TWO_LINKS}loss = \"0.1%\"\n[flows.f]\nfrom = \"a\"\nto = \"b\"\n");
    let run = |seed| {
        let mut world = sim::World::new(&read(&text), seed).unwrap();
        world.run_until(Duration::from_secs(20));
        (world.flow(0), world.counters())
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn a_part_that_the_simulator_does_not_have_is_named() {
    let text = "duration = \"2s\"\nnodes = [\"b\"]\n[nodes.a]\nsysctl = { \"net.ipv4.tcp_ecn\" = 1 }\n[links.l]\nbetween = [\"a\", \"b\"]\ndelay = \"1ms\"\n\
                [flows.f]\nfrom = \"a\"\nto = \"b\"\ncongestion_control = \"bbr\"\n[programs.p]\nnode = \"a\"\ncommand = \"true\"\n";
    let text = text.replace("nodes = [\"b\"]\n[nodes.a]", "[nodes.b]\n[nodes.a]");
    let missing = sim::World::new(&read(&text), 1).unwrap_err();
    let keys: Vec<&str> = missing.iter().map(|m| m.key.as_str()).collect();
    assert_eq!(keys, ["nodes.a.sysctl.\"net.ipv4.tcp_ecn\"", "flows.f", "programs.p"]);
    assert!(missing[1].reason.contains("bbr"), "{}", missing[1]);
}

/// A path without any delay would let TCP send without end at one moment.
#[test]
fn a_path_without_delay_is_refused() {
    let path = "duration = \"2s\"\nnodes = [\"a\", \"b\"]\n[links.l]\nbetween = [\"a\", \"b\"]\n\
                [flows.f]\nfrom = \"a\"\nto = \"b\"\n";
    let delayed = path.replace("[flows.f]", "delay = \"1ms\"\n[flows.f]");
    let schedule = "[[schedule]]\nat = \"10ms\"\nlink = \"l\"\ndelay = \"0ms\"\n";
    for text in [path.to_owned(), format!("{delayed}{schedule}")] {
        let missing = sim::World::new(&read(&text), 1).unwrap_err();
        assert!(missing[0].key == "flows.f" && missing[0].reason.contains("delay or a rate"), "{missing:?}");
    }
    assert!(sim::World::new(&read(&delayed), 1).is_ok());
}
