use units::{Duration, Instant, Rate};

use super::*;
use crate::Path;

const EAST: Member = Member(3);

fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

/// Two bridges whose losses change sides twice, and a driver that calls each 10 ms.
fn recorded() -> (Begin, Vec<Record>) {
    let mut recorder = Recorder::new(Member(0), Policy::default(), true).unwrap();
    for member in [Member(1), Member(2), EAST] {
        recorder.handle(Event::Member { at: at(0), member, relays: Some(true) }).unwrap();
    }
    for tick in 0..6000 {
        if tick % 10 == 0 {
            let (north, south) = if (2000..4000).contains(&tick) { (0.1501, 0.0123) } else { (0.0123, 0.1501) };
            for (bridge, loss) in [(1, north), (2, south)] {
                let metrics = |loss: f64| Metrics {
                    loss_low: loss * 0.9,
                    loss_high: loss * 1.1,
                    ..Metrics::exact(Some(Rate::from_bps(100_000_000)), Duration::from_millis(20), loss)
                };
                let out = metrics(loss / 3.0);
                let mut link = |from, to, metrics| {
                    recorder.handle(Event::Link { at: at(tick * 10), from, to, metrics: Some(metrics) }).unwrap();
                };
                link(Member(0), Member(bridge), out);
                link(Member(bridge), EAST, metrics(0.001));
            }
        }
        recorder.handle(Event::Timeout { at: at(tick * 10) }).unwrap();
    }
    let begin = recorder.begin();
    (begin, std::iter::from_fn(|| recorder.poll_record()).collect())
}

fn replayed(begin: &Begin, records: &[Record]) -> Replay {
    // By way of the text, as from a file.
    let begin = Begin::parse(&serde_json::to_string(begin).unwrap()).unwrap();
    let mut replay = Replay::new(begin).unwrap();
    for record in records {
        replay.handle(&serde_json::from_str(&serde_json::to_string(record).unwrap()).unwrap());
    }
    replay
}

fn decisions(records: &[Record]) -> Vec<usize> {
    (0..records.len()).filter(|i| matches!(records[*i], Record::Decision(_))).collect()
}

#[test]
fn what_was_recorded_is_decided_again_in_the_same_way() {
    let (begin, records) = recorded();
    let decided = decisions(&records).len();
    assert!(decided >= 5, "{decided}");
    let replay = replayed(&begin, &records);
    assert_eq!((replay.same(), replay.different(), replay.ahead()), (decided as u64, 0, 0), "{:?}", replay.first());
    let timeouts = records.iter().filter(|r| matches!(r, Record::Input(Event::Timeout { .. }))).count();
    assert!(timeouts < 1000, "{timeouts} of 6000: those that change nothing are not kept");
}

#[test]
fn a_record_that_was_changed_is_told_from_what_follows() {
    let (begin, records) = recorded();
    let at = decisions(&records)[4];
    let Record::Decision(fifth) = records[at].clone() else { panic!() };
    let without = [&records[..at], &records[at + 1..]].concat();
    let replay = replayed(&begin, &without);
    let first = replay.first().unwrap();
    assert_eq!((replay.different(), first.recorded, first.replayed), (1, None, Some(*fifth)));

    let mut other = records.clone();
    other[at] = Record::Decision(Box::new(Decision { to: Some(Path::direct(EAST)), ..*fifth }));
    let replay = replayed(&begin, &other);
    assert_eq!((replay.same(), replay.different()), (decisions(&records).len() as u64 - 1, 1));
    assert_eq!(replay.first().unwrap().replayed, Some(*fifth));

    let policy = Policy { hold_down: Duration::from_secs(3600), fast_fail: false, ..begin.policy };
    assert!(replayed(&Begin { policy, ..begin }, &records).different() > 0);

    // As a crash leaves it: what was decided last is missing.
    let last = *decisions(&records).last().unwrap();
    let replay = replayed(&begin, &records[..last]);
    assert_eq!((replay.different(), replay.ahead()), (0, 1));
}

#[test]
fn what_begins_otherwise_is_refused_with_its_reason() {
    let (begin, _) = recorded();
    let line = serde_json::to_string(&begin).unwrap();
    assert_eq!(Begin::parse(&line), Ok(begin));
    for other in ["", "key = \"west.key\"", "{}", r#"{"event":"session"}"#] {
        assert_eq!(Begin::parse(other), Err(BeginError::Other), "{other}");
    }
    let newer = r#"{"longhaul_route_record":3,"something":"else"}"#;
    assert_eq!(Begin::parse(newer), Err(BeginError::Version(3)));
    let broken = line.replace("\"own\":0", "\"own\":\"west\"");
    assert!(matches!(Begin::parse(&broken), Err(BeginError::Contents(_))));
}
