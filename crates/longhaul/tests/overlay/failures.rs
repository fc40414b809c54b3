//! Reaction of nodes to network failures, measured with a flow of datagrams at a constant rate.

use results::lab::{FlowInterval, LabRecord, Verdict};
use testbed::{undecided, undisturbed};

use crate::common::lab::{Ended, turn};

/// Two nodes with a direct link, and two relays between them.
const FOUR: &str = r#"
duration = "9s"
nodes = ["west", "north", "south", "east"]
[defaults]
rate = "50Mb/s"
delay = "5ms"
[links]
straight = { between = ["west", "east"] }
west-north = { between = ["west", "north"] }
north-east = { between = ["north", "east"] }
west-south = { between = ["west", "south"] }
south-east = { between = ["south", "east"] }
[overlay]
members = ["west", "north", "south", "east"]
single_path = true
capacity = "50Mb/s"
probe_share = 0.002 # some 180 a second: four members on a small machine
[record]
interval = "100ms"
[flows]
stream = { from = "west", to = "east", overlay = true, protocol = "udp", rate = "2Mb/s", block = "1000B" }
"#;

/// `None` if labs are impossible here or the emulation was not valid.
fn run(extra: &str) -> Option<Ended> {
    run_whole(&format!("{FOUR}{extra}"))
}

fn run_whole(scenario: &str) -> Option<Ended> {
    let turn = turn()?;
    let ended = turn.run(scenario, &[]).end();
    match &ended.end.verdict {
        Verdict::Valid => Some(ended),
        Verdict::Invalid { reasons } => {
            undecided(&reasons.join("; "));
            None
        }
    }
}

fn intervals(ended: &Ended) -> Vec<&FlowInterval> {
    ended
        .records
        .iter()
        .filter_map(|r| match r {
            LabRecord::Flow(f) => Some(f),
            _ => None,
        })
        .collect()
}

/// Returns the longest time without a datagram, in intervals of 100 ms.
fn longest_silence(ended: &Ended) -> usize {
    longest_silence_of(&intervals(ended))
}

fn longest_silence_of(intervals: &[&FlowInterval]) -> usize {
    let bytes: Vec<u64> = intervals.iter().map(|i| i.bytes).collect();
    assert!(bytes.len() > 80, "{} intervals", bytes.len());
    bytes.split(|b| *b > 0).map(<[u64]>::len).max().unwrap_or(0)
}

/// Returns the bytes received from 6 s to 8 s; the streams send 250 kB per second.
fn received_late(ended: &Ended) -> u64 {
    intervals(ended).iter().filter(|i| (6.0..8.0).contains(&i.start_s)).map(|i| i.bytes).sum()
}

/// Events in the log of one node.
fn events(ended: &Ended, member: &str) -> Vec<serde_json::Value> {
    let file = ended.directory.path().join(format!("out/run-0/overlay-{member}.jsonl"));
    let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    text.lines().map(|l| serde_json::from_str(l).unwrap()).collect()
}

#[test]
fn a_flow_uses_the_direct_link_while_it_is_good() {
    undisturbed(|| {
        let Some(ended) = run("") else { return };
        let flow = ended.end.flows.iter().find(|f| f.flow == "stream").unwrap();
        assert!(intervals(&ended).iter().all(|i| i.lost == Some(0)), "{flow:?}");
        assert_eq!(longest_silence(&ended), 0);
        // The direct link carries 2 Mb/s of payload. The northern link carries probes of at most 0.2 % of 50 Mb/s (110
        // kB in 9 s), reports and gossip.
        let straight = ended.link("straight", "west").delivered.bytes;
        let north = ended.link("west-north", "west").delivered.bytes;
        assert!(straight > 9 * 250_000 && north < straight / 5, "{straight} {north}");
        // The initial route may use a relay until the direct link is measured; this change is no alarm.
        let is_alarm = |e: &&serde_json::Value| e["reason"] == "failed" || e["reason"] == "degraded";
        assert_eq!(events(&ended, "west").iter().filter(is_alarm).count(), 0);
    });
}

#[test]
fn a_dark_link_is_left_within_a_second() {
    undisturbed(|| {
        let dark = "[[schedule]]\nat = \"4s\"\nlink = \"straight\"\nloss = 1.0\n";
        let Some(ended) = run(dark) else { return };
        let silence = longest_silence(&ended);
        println!("silence of {silence} intervals of 100 ms");
        assert!((1..=9).contains(&silence), "{silence} intervals");
        let bytes = received_late(&ended);
        assert!(bytes > 2 * 240_000, "the flow continues at its rate: {bytes} bytes in 2 s");
    });
}

#[test]
fn flows_on_two_routes_continue_when_one_link_goes_dark() {
    undisturbed(|| {
        // By default there are two routes, and each flow uses one of them: the probability that none of ten uses the
        // direct one is 1/1000.
        let streams: String = (0..10)
            .map(|n| format!("stream{n} = {{ from = \"west\", to = \"east\", overlay = true, protocol = \"udp\", rate = \"200kb/s\", block = \"500B\" }}\n"))
            .collect();
        let bulk = "bulk = { from = \"west\", to = \"east\", overlay = true, pacing = \"2Mb/s\", congestion_control = \"cubic\" }\n";
        let dark = "[[schedule]]\nat = \"4s\"\nlink = \"straight\"\nloss = 1.0\n";
        let (head, _) = FOUR.split_once("stream = ").unwrap();
        let head = head.replace("single_path = true\n", "");
        let Some(ended) = run_whole(&format!("{head}{streams}{bulk}{dark}")) else { return };
        let all = intervals(&ended);
        let of = |flow: &str| all.iter().filter(|i| i.flow == flow).copied().collect::<Vec<_>>();
        let silences: Vec<usize> = (0..10).map(|n| longest_silence_of(&of(&format!("stream{n}")))).collect();
        println!("silences of {silences:?} intervals of 100 ms");
        assert!(silences.iter().all(|s| *s <= 9) && silences.iter().any(|s| *s > 0), "{silences:?}");
        // TCP retransmits 0.2, 0.6 and 1.4 s after the first loss.
        let silence = longest_silence_of(&of("bulk"));
        assert!(silence <= 20, "{silence} intervals");
        for flow in (0..10).map(|n| format!("stream{n}")).chain(["bulk".to_owned()]) {
            let rate = if flow == "bulk" { 250_000 } else { 25_000 };
            let bytes = of(&flow).iter().filter(|i| (6.0..8.0).contains(&i.start_s)).map(|i| i.bytes).sum::<u64>();
            assert!(bytes > 2 * rate * 9 / 10, "{flow} continues at its rate: {bytes} bytes in 2 s");
        }
    });
}

#[test]
fn a_killed_relay_is_replaced_within_a_second() {
    undisturbed(|| {
        // There is no direct link, and the loss in the south keeps the flow on the northern path until the kill.
        let kill = r#"
[programs.killer]
node = "north"
start = "4s"
command = 'for p in /proc/[0-9]*; do if tr "\\0" " " <$p/cmdline | grep -q "overlay up.*/nort[h].toml"; then kill -KILL ${p#/proc/}; fi; done'
[[schedule]]
at = "0s"
link = "straight"
loss = 1.0
[[schedule]]
at = "0s"
link = "west-south"
loss = 0.1
"#;
        let Some(ended) = run(kill) else { return };
        let north = ended.link("north-east", "north").delivered.bytes;
        let south = ended.link("south-east", "south").delivered.bytes;
        assert!(
            north > 2 * 250_000 && south > 2 * 250_000,
            "the flow uses the north first and the south later: {north} {south}"
        );
        // The first seconds, in which the direct link is found to be dark, are covered by another test.
        let bytes: Vec<u64> = intervals(&ended).iter().filter(|i| i.start_s > 3.0).map(|i| i.bytes).collect();
        let silence = bytes.split(|b| *b > 0).map(<[u64]>::len).max().unwrap_or(0);
        println!("silence of {silence} intervals of 100 ms");
        assert!((1..=9).contains(&silence), "{silence} intervals");
        let bytes = received_late(&ended);
        // The southern path loses 10 %: 450 kB are expected, with a standard deviation of 7 kB.
        assert!(bytes > 2 * 210_000, "{bytes} bytes in 2 s");
    });
}

#[test]
fn a_flow_continues_after_a_restart_of_its_destination() {
    undisturbed(|| {
        // A service manager restarts the node with the same command half a second later.
        let restart = r#"
[programs.restart]
node = "east"
start = "4s"
command = '''
for p in /proc/[0-9]*; do
  file=$(tr "\\0" "\\n" <$p/cmdline | grep "/eas[t].toml$") || continue
  program=$(readlink $p/exe) && cd $(readlink $p/cwd) && kill -KILL ${p#/proc/} || continue
  sleep 0.5
  exec "$program" overlay up --config "$file"
done
'''
"#;
        let Some(ended) = run(restart) else { return };
        let silence = longest_silence(&ended);
        println!("silence of {silence} intervals of 100 ms");
        // The restart is delayed by 0.5 s, the start takes up to 0.5 s, and the handshake one or two round trips.
        assert!((5..=15).contains(&silence), "{silence} intervals");
        let bytes = received_late(&ended);
        assert!(bytes > 2 * 240_000, "the flow continues at its rate: {bytes} bytes in 2 s");
        let sessions = events(&ended, "east").iter().filter(|e| e["event"] == "session" && e["name"] == "west").count();
        assert!(sessions >= 2, "{:?}", events(&ended, "east"));
    });
}

#[test]
fn a_stall_of_a_node_is_reported_and_invalidates_the_run() {
    undisturbed(|| {
        let Some(turn) = turn() else { return };
        let pause = r#"
[programs.pause]
node = "south"
start = "3s"
command = 'for p in /proc/[0-9]*; do if tr "\\0" " " <$p/cmdline | grep -q "overlay up.*/sout[h].toml"; then kill -STOP ${p#/proc/}; sleep 0.6; kill -CONT ${p#/proc/}; fi; done'
"#;
        let ended = turn.run(&format!("{FOUR}{pause}"), &[]).end();
        let Verdict::Invalid { reasons } = &ended.end.verdict else { panic!("valid: {:?}", events(&ended, "south")) };
        assert!(reasons.iter().any(|b| b.contains("node in south stalled for 0.")), "{reasons:?}");
        let south = events(&ended, "south");
        let stalls =
            Vec::from_iter(south.iter().filter(|e| e["event"] == "stalled").filter_map(|e| e["for_s"].as_f64()));
        // The node may have slept through up to 0.1 s of the 0.6 s.
        assert!(stalls.iter().any(|s| (0.45..2.0).contains(s)), "{stalls:?}");
    });
}

#[test]
fn a_connection_continues_with_a_smaller_mss_when_the_link_mtu_decreases() {
    let narrower = r#"
duration = "20s"
nodes = ["west", "east"]
[links.straight]
between = ["west", "east"]
rate = "50Mb/s"
delay = "5ms"
[overlay]
members = ["west", "east"]
capacity = "2Mb/s"
[flows.bulk]
from = "west"
to = "east"
overlay = true
congestion_control = "cubic"
pacing = "2Mb/s"
[[schedule]]
at = "2s"
link = "straight"
mtu = 1400
"#;
    let Some(turn) = turn() else { return };
    undisturbed(|| {
        let ended = turn.run(narrower, &[]).end();
        // Losses start the path MTU search within two seconds; the periodic confirmation, which covers the other cases,
        // takes up to ten seconds. TCP, whose segments are lost meanwhile, has a retransmission timeout of 6.4 s by
        // then. It learns the path MTU when the search has ended.
        let is_late = |i: &&FlowInterval| (17.0..19.0).contains(&i.start_s);
        let bytes = intervals(&ended).into_iter().filter(is_late).map(|i| i.bytes).sum::<u64>();
        assert!(bytes > 2 * 200_000, "the flow continues at 2 Mb/s: {bytes} bytes in 2 s");
        let records = std::fs::read_to_string(ended.directory.path().join("out/run-0/flow-bulk.jsonl")).unwrap();
        let of_sender = records.lines().filter(|l| l.contains("\"end\":\"client\""));
        let mss_bytes =
            of_sender.filter_map(|l| l.split_once("\"mss_bytes\":")?.1.split([',', '}']).next()?.parse().ok());
        let mss_bytes: Vec<u32> = mss_bytes.collect();
        // 1400 bytes minus 28 of IPv4 and UDP and 40 of the frame are 1332; minus 52 of IPv4 and TCP, the MSS is 1280.
        // The search has a resolution of 8 bytes.
        let (first, last) = (mss_bytes.first().unwrap(), mss_bytes.last().unwrap());
        assert!(*first == 1304 && (1272..=1280).contains(last), "{first} to {last} bytes");
    });
}
