//! Reaction of nodes to network failures, measured with a flow of datagrams at a constant rate.

use results::lab::{FlowInterval, LabRecord, Verdict};
use testbed::{undecided, undisturbed};

use crate::common::lab::{Ended, turn};

/// Two members, and two relays between them; west and east have a link of their own, too.
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

/// Longest time without a datagram, in intervals of 100 ms.
fn longest_silence(ended: &Ended) -> usize {
    silence_of(&intervals(ended))
}

fn silence_of(intervals: &[&FlowInterval]) -> usize {
    let bytes: Vec<u64> = intervals.iter().map(|i| i.bytes).collect();
    assert!(bytes.len() > 80, "{} intervals", bytes.len());
    bytes.split(|b| *b > 0).map(<[u64]>::len).max().unwrap_or(0)
}

/// What arrived in the two seconds from the seventh on: the streams have 250 kB in each.
fn later(ended: &Ended) -> u64 {
    intervals(ended).iter().filter(|i| (6.0..8.0).contains(&i.start_s)).map(|i| i.bytes).sum()
}

/// Events in the log of one node.
fn events(ended: &Ended, member: &str) -> Vec<serde_json::Value> {
    let file = ended.directory.path().join(format!("out/run-0/overlay-{member}.jsonl"));
    let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    text.lines().map(|l| serde_json::from_str(l).unwrap()).collect()
}

#[test]
fn a_flow_goes_directly_as_long_as_nothing_speaks_against_it() {
    undisturbed(|| {
        let Some(ended) = run("") else { return };
        let flow = ended.end.flows.iter().find(|f| f.flow == "stream").unwrap();
        assert!(intervals(&ended).iter().all(|i| i.lost == Some(0)), "{flow:?}");
        assert_eq!(longest_silence(&ended), 0);
        // 2 Mb/s of payload here; there probes within 0.2 % of 50 Mb/s, or 110 kB in 9 s, and reports and gossip.
        let straight = ended.link("straight", "west").delivered.bytes;
        let north = ended.link("west-north", "west").delivered.bytes;
        assert!(straight > 9 * 250_000 && north < straight / 5, "{straight} {north}");
        // An initial route over a relay may be replaced by the direct one, as soon as that is known.
        let is_alarm = |e: &&serde_json::Value| e["reason"] == "failed" || e["reason"] == "degraded";
        assert_eq!(events(&ended, "west").iter().filter(is_alarm).count(), 0);
    });
}

#[test]
fn a_link_that_goes_dark_is_left_within_a_second() {
    undisturbed(|| {
        let dark = "[[schedule]]\nat = \"4s\"\nlink = \"straight\"\nloss = 1.0\n";
        let Some(ended) = run(dark) else { return };
        let silence = longest_silence(&ended);
        println!("silence of {silence} intervals of 100 ms");
        assert!((1..=9).contains(&silence), "{silence} intervals");
        let bytes = later(&ended);
        assert!(bytes > 2 * 240_000, "it goes on at its rate: {bytes} bytes in 2 s");
    });
}

#[test]
fn flows_that_were_spread_over_two_ways_all_go_on_when_one_goes_dark() {
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
        let silences: Vec<usize> = (0..10).map(|n| silence_of(&of(&format!("stream{n}")))).collect();
        println!("silences of {silences:?} intervals of 100 ms");
        assert!(silences.iter().all(|s| *s <= 9) && silences.iter().any(|s| *s > 0), "{silences:?}");
        // TCP tries again 0.2, 0.6 and 1.4 s after what was lost first.
        let silence = silence_of(&of("bulk"));
        assert!(silence <= 20, "{silence} intervals");
        for flow in (0..10).map(|n| format!("stream{n}")).chain(["bulk".to_owned()]) {
            let rate = if flow == "bulk" { 250_000 } else { 25_000 };
            let later = of(&flow).iter().filter(|i| (6.0..8.0).contains(&i.start_s)).map(|i| i.bytes).sum::<u64>();
            assert!(later > 2 * rate * 9 / 10, "{flow} goes on at its rate: {later} bytes in 2 s");
        }
    });
}

#[test]
fn a_relay_that_is_killed_is_replaced_within_a_second() {
    undisturbed(|| {
        // No straight link, and a southern way that loses so much that the northern one is taken as long as it is
        // there.
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
        assert!(north > 2 * 250_000 && south > 2 * 250_000, "first the north, then the south: {north} {south}");
        // The first seconds, in which the straight link turns out to be dark, are another test's.
        let bytes: Vec<u64> = intervals(&ended).iter().filter(|i| i.start_s > 3.0).map(|i| i.bytes).collect();
        let silence = bytes.split(|b| *b > 0).map(<[u64]>::len).max().unwrap_or(0);
        println!("silence of {silence} intervals of 100 ms");
        assert!((1..=9).contains(&silence), "{silence} intervals");
        let bytes = later(&ended);
        // A tenth is lost on the southern way: 450 kB are expected, with a standard deviation of 7.
        assert!(bytes > 2 * 210_000, "{bytes} bytes in 2 s");
    });
}

#[test]
fn a_flow_continues_when_its_end_is_killed_and_restarted() {
    undisturbed(|| {
        // As a service manager does it: half a second later, by the same command.
        let again = r#"
[programs.again]
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
        let Some(ended) = run(again) else { return };
        let silence = longest_silence(&ended);
        println!("silence of {silence} intervals of 100 ms");
        // Half a second until it is there, as much for its start, and a round trip or two.
        assert!((5..=15).contains(&silence), "{silence} intervals");
        let bytes = later(&ended);
        assert!(bytes > 2 * 240_000, "it goes on at its rate: {bytes} bytes in 2 s");
        let began = events(&ended, "east").iter().filter(|e| e["event"] == "session" && e["name"] == "west").count();
        assert!(began >= 2, "{:?}", events(&ended, "east"));
    });
}

#[test]
fn a_stalled_node_reports_it_and_its_run_does_not_count() {
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
        // Of the 0.6 s it would have slept up to a tenth.
        assert!(stalls.iter().any(|s| (0.45..2.0).contains(s)), "{stalls:?}");
    });
}

#[test]
fn a_connection_goes_on_with_smaller_segments_when_its_link_carries_less() {
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
        // Losses have the size sought within a second or two; where chance hides them it is confirmed each ten seconds,
        // and TCP, whose segments vanish until then, has come to wait for 6.4 s between two trials. It is told what the
        // way carries once that has settled.
        let late = |i: &&FlowInterval| (17.0..19.0).contains(&i.start_s);
        let bytes = intervals(&ended).into_iter().filter(late).map(|i| i.bytes).sum::<u64>();
        assert!(bytes > 2 * 200_000, "2 Mb/s go on: {bytes} bytes in 2 s");
        let records = std::fs::read_to_string(ended.directory.path().join("out/run-0/flow-bulk.jsonl")).unwrap();
        let of_sender = records.lines().filter(|l| l.contains("\"end\":\"client\""));
        let told = of_sender.filter_map(|l| l.split_once("\"mss_bytes\":")?.1.split([',', '}']).next()?.parse().ok());
        let told: Vec<u32> = told.collect();
        // 1400 less 28 bytes of IPv4 and UDP and the frame's 40 are 1332; less 52 of IPv4 and TCP. Sizes are found to 8
        // bytes.
        let (first, last) = (told.first().unwrap(), told.last().unwrap());
        assert!(*first == 1304 && (1272..=1280).contains(last), "{first} to {last} bytes");
    });
}
