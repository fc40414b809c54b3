use units::Duration;

use super::*;
use crate::{Inputs, Metrics, Reason};

#[test]
fn an_explanation_reads_as_text_and_as_a_record() {
    let at = Instant::ZERO + Duration::from_secs(100);
    let metrics = Metrics::exact(Some(Rate::from_bps(45_000_000)), Duration::from_millis(150), 0.05);
    let predicted = Rate::from_bps(1_000_000);
    let judged =
        Judged { metrics, predicted, utility: [Rate::from_bps(900_000), predicted, Rate::from_bps(1_100_000)] };
    let destination = Member(9);
    let until = at + Duration::from_millis(2500);
    let used = InUse {
        path: Path::direct(destination),
        since: Instant::ZERO,
        judged: None,
        rate_aware: None,
        assumed: false,
        chosen_for: predicted,
        load: Load { flows: 2, carried: Rate::from_bps(500_000) },
    };
    let candidate = Candidate {
        path: Path::via(&[Member(1)], destination).unwrap(),
        judged,
        rate_aware: Rate::from_bps(12_000_000),
        assumed: false,
        holds: vec![Hold::Margin { required: Rate::from_bps(1_500_000) }, Hold::HoldDown { until }],
    };
    let inputs = Inputs { to: Some(judged), ..Inputs::default() };
    let (from, to) = (Some(candidate.path), Some(used.path));
    let since = at - Duration::from_millis(12_340);
    let decided = Some(Decision { at: since, destination, place: 0, from, to, reason: Reason::Failed, inputs });
    let explanation = Explanation { at, destination, used: vec![used], decided, candidates: vec![candidate] };
    let expected = "00000009\n  \
        uses direct for 100.0 s: failed; 2 flows with 500.0 kb/s\n  \
        last change 12.3 s ago: via 00000001 -> direct, predicted 1.000 Mb/s (failed)\n  \
        could via 00000001: 1.000 Mb/s predicted (900.0 kb/s to 1.100 Mb/s for all flows), 12.00 Mb/s if told its rate, rtt 150.0 ms, \
        loss 0.0500 (0.0500 to 0.0500), capacity 45.00 Mb/s\n    \
        not now: less than 1.500 Mb/s; last change too recent, for another 2.5 s";
    assert_eq!(explanation.to_string(), expected);
    let name = |m: Member| if m == destination { "east" } else { "north" };
    let named = expected.replacen("00000009", "east", 1).replace("00000001", "north");
    assert_eq!(explanation.with_names(name).to_string(), named);
    let record = serde_json::to_string(&explanation).unwrap();
    assert!(record.contains(r#"{"hold":"hold-down","until_ns":102500000000}"#), "{record}");
    assert_eq!(serde_json::from_str::<Explanation>(&record).unwrap(), explanation);
    // An assumed rate is not printed.
    let unknown = Judged { metrics: Metrics { capacity: None, ..metrics }, ..judged };
    let candidate = Candidate { judged: unknown, assumed: true, ..explanation.candidates[0].clone() };
    let inputs = Inputs { to: Some(unknown), ..inputs };
    let decided = decided.map(|decided| Decision { inputs, ..decided });
    let assumed = Explanation { decided, candidates: vec![candidate], ..explanation }.to_string();
    assert!(
        assumed.contains("could via 00000001: rate unknown, as the capacity is not measured yet, rtt 150.0 ms"),
        "{assumed}"
    );
    assert!(assumed.contains("via 00000001 -> direct (failed)") && !assumed.contains("1.000 Mb/s"), "{assumed}");
    let nothing = Explanation { at, destination, used: Vec::new(), decided: None, candidates: Vec::new() };
    assert_eq!(nothing.to_string(), "00000009: no path");
}
