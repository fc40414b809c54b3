use std::path::Path;

use super::*;

fn scenario(links: &str, flow: &str) -> Scenario {
    let text = format!(
        "duration = \"20s\"\nnodes = [\"a\", \"b\", \"c\"]\n[links.one]\nbetween = [\"a\", \"b\"]\ndelay = \"30ms\"\n{links}\n\
         [links.two]\nbetween = [\"b\", \"c\"]\nforward.delay = \"20ms\"\n[flows.f]\nfrom = \"a\"\nto = \"c\"\n{flow}\n"
    );
    let read = scenario::read(Path::new("x.toml"), &text, &scenario::Options::default(), &|_| Err(String::new()));
    read.unwrap_or_else(|e| panic!("{e}")).scenarios.remove(0)
}

fn command_line(flow: &str) -> String {
    let scenario = scenario("", flow);
    arguments(&scenario, &scenario.flows[0]).join(" ")
}

#[test]
fn a_flow_is_a_test_with_its_options() {
    assert_eq!(
        command_line(""),
        "test 10.0.0.3 --time 20000000000ns --interval 1000000000ns --streams 1 --congestion cubic --notsent-lowat 1048576"
    );
    let tcp = command_line(
        "bytes = \"3MB\"\nstreams = 4\ncongestion_control = \"reno\"\npacing = \"8Mb/s\"\nwindow = \"1MB\"\nmss = 1000\ndscp = 8\nipv6 = true",
    );
    for part in [
        "test fd00::3 --bytes 3000000 ",
        " --streams 4 ",
        " --pacing 8000000b/s ",
        " --congestion reno ",
        " --window 1000000 ",
        " --mss 1000 ",
        " --dscp 8",
    ] {
        assert!(tcp.contains(part), "`{part}` is not in: {tcp}");
    }
    let udp = command_line("protocol = \"udp\"\nrate = \"5Mb/s\"\narrivals = \"poisson\"");
    assert!(udp.contains(" --udp 5000000b/s") && udp.ends_with("--poisson"), "{udp}");
    assert!(["--congestion", "--pacing", "--notsent-lowat"].iter().all(|o| !udp.contains(o)), "{udp}");
}

#[test]
fn a_run_adds_its_start_its_file_and_a_seed_for_random_traffic() {
    let own = |flow: &str| {
        let scenario = scenario("", flow);
        run_arguments(Path::new("out"), &scenario.flows[0], Instant::from_nanos(5), 9).join(" ")
    };
    assert_eq!(own(""), "--start-at-ns 5 --json=out/flow-f.jsonl --title f");
    assert!(own("protocol = \"udp\"\nrate = \"5Mb/s\"\narrivals = \"poisson\"").ends_with(" --seed 9"));
}

#[test]
fn the_round_trip_is_the_sum_of_both_directions() {
    let plain = scenario("", "");
    // 30 ms + 20 ms forward, 0 ms + 30 ms back.
    assert_eq!(round_trip(&plain, &plain.flows[0]), Duration::from_millis(80));
    let lossy = scenario("backward.loss = 0.01", "");
    let (lossless, with_loss) = (lead(&plain, &plain.flows[0]), lead(&lossy, &lossy.flows[0]));
    assert!(
        lossless > Duration::from_millis(80 * 12) && with_loss > lossless + Duration::from_secs(4),
        "{lossless:?} {with_loss:?}"
    );
}

#[test]
fn a_flow_without_records_has_failed_with_a_reason() {
    let scenario = scenario("", "");
    let nowhere = std::env::temp_dir().join("longhaul-no-such-directory");
    let outcome = |failure| read(&scenario.flows[0], Instant::from_nanos(0), 0, &nowhere, failure).totals;
    assert!(outcome(None).failure.unwrap().starts_with("no records: "));
    assert_eq!(outcome(Some("connection refused".to_owned())).failure.unwrap(), "connection refused");
}

#[test]
fn a_window_is_cut_if_a_buffer_is_smaller_than_requested() {
    // Linux reads back double of what it granted.
    let grant =
        |bytes: u64| BufferGrant { requested_bytes: Some(1 << 20), send_bytes: 2 * bytes, receive_bytes: 4 << 20 };
    let cut = |flow: &str, bytes: u64| {
        let scenario = scenario("", flow);
        cut_window(&scenario.flows[0], [grant(1 << 20), grant(bytes)].into_iter())
    };
    assert_eq!(cut("window = \"1MiB\"", 1 << 20), None);
    assert_eq!(cut("window = \"1MiB\"", 1000), Some((Bytes::new(1 << 20), Bytes::new(1000))));
    assert_eq!(cut("", 1000), None, "the experiment requests no window");
    assert_eq!(
        cut("protocol = \"udp\"\nrate = \"5Mb/s\"", 1000),
        None,
        "the default buffers of a UDP test are not checked"
    );
}
