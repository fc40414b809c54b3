use units::Duration;

use super::*;
use crate::Error;

const EAST: Member = Member(3);

fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

/// A minute on two bridges whose losses wander and cross, with a failure and nonsense in between.
fn events() -> Vec<Event> {
    let member = |member, relays| Event::Member { at: at(0), member: Member(member), relays: Some(relays) };
    let mut events = vec![member(1, true), member(2, true), member(3, false)];
    for i in 0..300_u64 {
        let now = at(i * 200);
        let phase = i as f64 / 40.0;
        for (bridge, loss) in [(1, 0.1 + 0.09 * phase.sin()), (2, 0.1 - 0.09 * phase.sin())] {
            let metrics = |loss: f64| Metrics {
                loss_low: loss * 0.9,
                loss_high: loss * 1.1,
                ..Metrics::exact(Some(Rate::from_bps(100_000_000)), Duration::from_millis(20), loss)
            };
            let is_down = bridge == 1 && (200..230).contains(&i);
            let first = (!is_down).then(|| metrics(loss / 3.0));
            events.push(Event::Link { at: now, from: Member(0), to: Member(bridge), metrics: first });
            events.push(Event::Link { at: now, from: Member(bridge), to: EAST, metrics: Some(metrics(0.001)) });
        }
        if i % 50 == 7 {
            let load = Load { flows: 3, carried: Rate::from_bps(1_000_000) };
            events.push(Event::Load { at: now, path: Path::direct(EAST), load });
            events.push(Event::Link { at: now, from: EAST, to: EAST, metrics: None });
        }
        events.push(Event::Timeout { at: now + Duration::from_millis(100) });
    }
    events.push(Event::Member { at: at(60_000), member: EAST, relays: None });
    events
}

#[test]
fn a_recorded_log_replays_to_the_same_decisions() {
    let policy = Policy { hold_down: Duration::from_secs(2), suppress: Duration::from_secs(1), ..Policy::default() };
    let mut control = Control::new(Member(0), policy.clone()).unwrap();
    let mut log = Vec::new();
    let mut decided = Vec::new();
    for event in events() {
        log.push(serde_json::to_string(&event).unwrap());
        control.handle(&event).unwrap();
        while let Some(decision) = control.poll_decision() {
            decided.push(serde_json::to_string(&decision).unwrap());
        }
    }
    let kinds = |reason: &str| decided.iter().filter(|d| d.contains(reason)).count();
    for reason in ["initial", "failed", "removed"] {
        assert!(kinds(&format!(r#""reason":"{reason}""#)) > 0, "no {reason} in {decided:#?}");
    }
    assert!(decided.len() > 10, "{decided:#?}");
    // By way of the text, as a log is: of the policy, too.
    let policy: Policy = serde_json::from_str(&serde_json::to_string(&policy).unwrap()).unwrap();
    let read: Vec<Event> = log.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let again = replay(Member(0), policy, &read).unwrap();
    let again: Vec<String> = again.iter().map(|d| serde_json::to_string(d).unwrap()).collect();
    assert_eq!(again, decided);
}

#[test]
fn what_control_refuses_is_passed_over_in_a_replay() {
    let nonsense = Metrics::exact(None, Duration::ZERO, 0.5);
    let event = Event::Link { at: at(0), from: EAST, to: EAST, metrics: Some(nonsense) };
    let mut control = Control::new(Member(0), Policy::default()).unwrap();
    assert_eq!(control.handle(&event), Err(Error::Metrics { from: EAST, to: EAST }));
    assert_eq!(replay(Member(0), Policy::default(), [&event]), Ok(Vec::new()));
    assert!(replay(Member(0), Policy { max_paths: 0, ..Policy::default() }, [&event]).is_err());
}

#[test]
fn a_decision_is_one_line_for_people_and_has_units_in_its_keys() {
    let metrics = Metrics::exact(Some(Rate::from_bps(5_000_000)), Duration::from_millis(20), 0.01);
    let predicted = Rate::from_bps(1_500_000);
    let judged = Judged { metrics, predicted, utility: [predicted; 3] };
    let decision = Decision {
        at: at(1500),
        destination: Member(0x2a),
        place: 0,
        from: Some(Path::direct(Member(0x2a))),
        to: Path::via(&[Member(7)], Member(0x2a)),
        reason: Reason::Failed,
        inputs: Inputs { to: Some(judged), ..Inputs::default() },
    };
    assert_eq!(decision.to_string(), "0000002a: direct -> via 00000007, predicted 1.500 Mb/s (failed)");
    let gone = Decision { place: 1, to: None, reason: Reason::Removed, inputs: Inputs::default(), ..decision };
    assert_eq!(gone.to_string(), "0000002a [1]: direct -> no path (removed)");
    let text = serde_json::to_string(&decision).unwrap();
    for expected in
        [r#""at_ns":1500000000"#, r#""predicted_bps":1500000"#, r#""reason":"failed""#, r#""rtt_ns":20000000"#]
    {
        assert!(text.contains(expected), "{text}");
    }
    assert_eq!(serde_json::from_str::<Decision>(&text).unwrap(), decision);
}
