use super::*;

#[test]
fn both_policies_make_sense_and_come_back_from_their_text() {
    for policy in [Policy::default(), Policy::safire_2008(), Policy::default().single_path()] {
        assert_eq!(policy.check(), Ok(()));
        let text = serde_json::to_string(&policy).unwrap();
        assert_eq!(serde_json::from_str::<Policy>(&text).unwrap(), policy);
    }
}

#[test]
fn the_papers_policy_is_that_of_the_paper() {
    let paper = Policy::safire_2008();
    assert_eq!((paper.model, paper.margin, paper.max_paths), (Model::Safire { k: 1.0 }, 0.5, 1));
    assert!(!paper.fast_fail && paper.ci_scale == 0.0 && paper.suppress.is_zero());
}

#[test]
fn what_a_text_does_not_say_is_as_by_default_and_unknown_keys_are_refused() {
    let policy: Policy = serde_json::from_str(r#"{"margin":0.2,"hold_down_ns":1000}"#).unwrap();
    let expected = Policy { margin: 0.2, hold_down: Duration::from_micros(1), ..Policy::default() };
    assert_eq!(policy, expected);
    assert!(serde_json::from_str::<Policy>(r#"{"eta":0.2}"#).is_err());
}

#[test]
fn values_without_meaning_are_named() {
    let ours = Policy::default();
    for (policy, field) in [
        (Policy { margin: -0.1, ..ours.clone() }, "margin"),
        (Policy { margin: f64::NAN, ..ours.clone() }, "margin"),
        (Policy { ci_scale: f64::INFINITY, ..ours.clone() }, "ci_scale"),
        (Policy { degraded_share: 1.5, ..ours.clone() }, "degraded_share"),
        (Policy { max_paths: 0, ..ours.clone() }, "max_paths"),
        (Policy { mss: Bytes::ZERO, ..ours.clone() }, "mss_bytes"),
        (Policy { link_timeout: Duration::ZERO, ..ours.clone() }, "link_timeout_ns"),
        (Policy { model: Model::Safire { k: 0.0 }, ..ours.clone() }, "model"),
        (Policy { model: Model::RateAware { alpha: -1.0, beta: 0.0 }, ..ours }, "model"),
    ] {
        let said = policy.check().unwrap_err().to_string();
        assert!(said.starts_with(&format!("`{field}` must be ")), "{said}");
    }
}

#[test]
fn the_refractory_time_doubles_up_to_its_bound() {
    let ours = Policy::default();
    let seconds = |flaps| ours.suppress_after(flaps, 0.0).as_secs_f64();
    for (flaps, expected) in
        [(1.0, 8.0), (2.0, 16.0), (3.0, 32.0), (7.0, 512.0), (8.0, 600.0), (1e9, 600.0), (0.0, 8.0)]
    {
        assert!((seconds(flaps) - expected).abs() < 1e-6, "{flaps}: {}", seconds(flaps));
    }
    assert!((ours.suppress_after(9.0, 0.5).as_secs_f64() - 900.0).abs() < 1e-6, "half of the jitter longer");
    assert_eq!(ours.decayed(4.0, Duration::from_secs(1200)), 1.0, "two half-lives");
}
