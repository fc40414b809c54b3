//! The experiment files of this project are valid, with and without their short variant, and match their papers.
#![allow(clippy::disallowed_methods, reason = "the files are read from where users find them")]
#![allow(clippy::expect_used, reason = "a test says what it misses by panicking")]

mod common;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use common::ms;
use link::{Capacity, Loss, QueueLimit};
use proptest::prelude::*;
use scenario::{Extent, Medium, Options, Scenario};
use units::{Bytes, Rate};

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

fn files() -> Vec<(PathBuf, String)> {
    let mut files: Vec<_> = std::fs::read_dir(directory())
        .expect("the directory of experiment files")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == "toml"))
        .map(|path| (path.clone(), std::fs::read_to_string(path).expect("a readable file")))
        .collect();
    files.sort();
    files
}

fn scenarios(name: &str, variant: Option<&str>) -> Vec<Scenario> {
    let path = directory().join(name);
    let text = std::fs::read_to_string(&path).expect("a readable file");
    let options = Options { variant: variant.map(str::to_owned), ..Options::default() };
    let file = |path: &Path| std::fs::read_to_string(path).map_err(|e| e.to_string());
    scenario::read(&path, &text, &options, &file).unwrap_or_else(|problems| panic!("{problems}")).scenarios
}

/// The media that packets from one node to another pass.
fn route(s: &Scenario, from: &str, to: &str) -> Vec<String> {
    let find = |name: &str| s.nodes.iter().position(|n| n.name == name).expect("a node");
    let (mut at, to, mut media) = (find(from), find(to), Vec::new());
    while at != to {
        let route = s.nodes[at].routes.iter().find(|r| r.to == to).expect("a route");
        media.push(match route.over {
            Medium::Link(i) => s.links[i].name.clone(),
            Medium::Lan(i) => s.lans[i].name.clone(),
        });
        at = route.next;
    }
    media
}

#[test]
fn every_file_is_valid_and_its_short_variant_takes_at_most_eight_seconds_per_point() {
    let names: BTreeSet<_> = files().into_iter().map(|(path, _)| path.file_name().map(|n| n.to_owned())).collect();
    assert!(names.len() >= 8, "{names:?}");
    for (path, text) in files() {
        let name = path.file_name().and_then(|n| n.to_str()).expect("a name");
        assert!(text.lines().count() < 60, "{name} has {} lines", text.lines().count());
        assert!(
            text.starts_with("# ") && text.contains(&format!("longhaul lab run scenarios/{name}")),
            "{name}: header"
        );
        for s in scenarios(name, None) {
            assert!(!s.about.is_empty(), "{name}");
            assert!(s.flows.len() + s.programs.len() + s.estimates.len() > 0, "{name}");
        }
        let short = scenarios(name, Some("short"));
        assert!(short.len() <= 4, "{name}: {} points", short.len());
        for s in short {
            assert!(s.duration <= Duration::from_secs(8), "{name}: {:?}", s.duration);
            assert_eq!(s.repeat, 1, "{name}");
        }
    }
}

#[test]
fn safire_changes_its_losses_five_times_as_in_figure_4() {
    let points = scenarios("safire-domestic.toml", None);
    assert_eq!(route(&points[0], "westc1", "eastc1"), ["west", "west-north", "north-east", "east"]);
    assert_eq!(route(&points[1], "westc1", "eastc1"), ["west", "west-south", "south-east", "east"]);
    for s in &points {
        assert_eq!(s.duration, Duration::from_secs(300));
        for period in 0..5 {
            let at = Duration::from_secs(60 * period);
            let loss = |link: &str| {
                let of_link = |c: &&scenario::Change| s.links[c.link].name == link && c.at <= at;
                s.schedule.iter().rev().find(of_link).map(|c| c.settings.loss)
            };
            let (high, low) = (Some(Loss::Independent(0.15)), Some(Loss::Independent(0.05)));
            let expected = if period % 2 == 0 { (high, low) } else { (low, high) };
            assert_eq!((loss("west-north"), loss("west-south")), expected, "period {}", period + 1);
        }
    }
}

#[test]
fn safire_forwards_over_one_satellite_or_the_other() {
    let points = scenarios("safire-forward.toml", None);
    assert_eq!(route(&points[0], "westc1", "topc1"), ["west", "sat1", "top"]);
    assert_eq!(route(&points[1], "westc1", "topc1"), ["west", "west-north", "north-east", "sat2", "top"]);
}

#[test]
fn the_paths_of_abilene_have_their_base_round_trips_and_starts() {
    let s = &scenarios("abilene.toml", None)[0];
    let timeline: Vec<_> = s.flows[..4]
        .iter()
        .map(|f| {
            let media = route(s, &s.nodes[f.from].name, &s.nodes[f.to].name);
            assert!(media.contains(&"oc48".to_owned()));
            let delays = media.iter().filter_map(|m| s.links.iter().find(|l| l.name == *m));
            let round_trip: Duration = delays.map(|l| l.forward.delay + l.backward.delay).sum();
            let Extent::Duration(extent) = f.extent else { panic!("{} has no time", f.name) };
            (round_trip, f.start * 30, (f.start + extent) * 30)
        })
        .collect();
    let at = Duration::from_secs;
    let table3 = [
        (ms(59), at(0), at(7200)),
        (ms(44), at(900), at(4500)),
        (ms(59), at(1800), at(5400)),
        (ms(46), at(2700), at(6300)),
    ];
    assert_eq!(timeline, table3);
    assert_eq!(s.links[0].forward.capacity, Capacity::Constant(Rate::from_bps(250_000_000)));
    assert_eq!(s.flows[0].rate, Some(Rate::from_bps(28_600_000)));
}

#[test]
fn the_queues_of_bufferbloat_are_a_tenth_one_and_ten_times_375_kb() {
    let limits: Vec<_> = scenarios("bufferbloat.toml", None).iter().map(|s| s.links[0].forward.queue.limit).collect();
    assert_eq!(limits, [37_500, 375_000, 3_750_000].map(|n| QueueLimit::Bytes(Bytes::new(n))));
}

#[test]
fn the_single_loss_occurs_when_the_window_equals_that_of_the_path() {
    for (variant, bps) in [(None, 1e9), (Some("short"), 1e8)] {
        let points = scenarios("loss-recovery.toml", variant);
        let controls: Vec<_> = points.iter().filter_map(|s| s.flows[0].congestion_control.as_deref()).collect();
        assert_eq!(controls, ["reno", "cubic", "htcp", "fast"]);
        for s in &points {
            let there = &s.links[0].forward;
            assert_eq!((there.delay + s.links[0].backward.delay, s.links[0].mtu), (ms(187), 9000));
            assert_eq!(there.capacity, Capacity::Constant(Rate::from_bps(bps as u64)));
            // Slow start sends ten packets first and adds one for each that arrives.
            let (window, path) = (there.loss_list[0] as f64 + 10.0, bps * 0.187 / 8.0 / 9038.0);
            assert!(there.loss_list.len() == 1 && (window / path - 1.0).abs() < 0.02, "{window} of {path}");
        }
    }
}

/// The constant rate of a link towards its second node.
fn rate(s: &Scenario, link: &str) -> f64 {
    let link = s.links.iter().find(|l| l.name == link).expect("a link");
    let Capacity::Constant(rate) = link.forward.capacity else { panic!("{} has no rate", link.name) };
    rate.as_bps() as f64
}

#[test]
fn the_rates_of_the_ensemble_are_quantiles_of_a_log_normal() {
    for variant in [None, Some("loaded")] {
        let points = scenarios("paths.toml", variant);
        assert_eq!(points.len(), 32);
        // The standard normal distribution has (i - 1/2)/8 of itself below these.
        let quantiles = [-1.534, -0.887, -0.489, -0.157, 0.157, 0.489, 0.887, 1.534];
        for (s, z) in points.iter().step_by(4).zip(quantiles) {
            let expected = 9.3e6 * f64::exp(2.0 * z);
            // Rates are rounded to three digits.
            assert!((rate(s, "path") / expected - 1.0).abs() < 0.01, "{:?}", s.point);
        }
        let ends: BTreeSet<_> =
            points.iter().map(|s| s.point.iter().map(|(_, v)| v.clone()).collect::<Vec<_>>()).collect();
        assert_eq!(ends.len(), 32, "every path has its own ends");
    }
}

#[test]
fn the_tight_link_is_not_the_narrow_link_in_the_variant_unlike() {
    for s in scenarios("estimate-grid.toml", Some("unlike")) {
        assert!(rate(&s, "after") < rate(&s, "tight"), "narrow");
        let load = s.flows.iter().find(|f| f.name == "load").and_then(|f| f.rate).expect("the load");
        let left = rate(&s, "tight") - load.as_bps() as f64 * 1476.0 / 1448.0;
        assert!(left < rate(&s, "after"), "tight");
    }
}

/// One of the files, damaged in a few places.
fn damaged() -> impl Strategy<Value = String> {
    let texts: Vec<String> = files().into_iter().map(|(_, text)| text).collect();
    let pieces = [
        "\"",
        "[",
        "]",
        "=",
        "0",
        "-1",
        "$",
        "999999999999h",
        "{",
        "}",
        "\n",
        ".",
        "\u{e9}",
        "*",
        " / $T",
        "1e308",
        "[[",
        "true",
        "bdp",
    ];
    let edits = proptest::collection::vec(
        (any::<prop::sample::Index>(), 0..40_usize, prop::sample::select(pieces.to_vec())),
        1..6,
    );
    (prop::sample::select(texts), edits).prop_map(|(mut text, edits)| {
        for (index, remove, piece) in edits {
            let places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
            let from = places.get(index.index(places.len().max(1))).copied().unwrap_or(0);
            let to = text[from..].char_indices().map(|(at, _)| from + at).nth(remove).unwrap_or(text.len());
            text.replace_range(from..to, piece);
        }
        text
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_text_and_no_option_causes_a_panic(
        text in damaged(), key in "[a-z.0-9\"]{0,20}", value in "[ -~]{0,20}", short in any::<bool>(),
    ) {
        let options = Options {
            overrides: vec![(key, value)],
            variant: short.then(|| "short".to_owned()),
            repeat: None,
        };
        for options in [Options::default(), options] {
            match scenario::read(Path::new("x.toml"), &text, &options, &|_| Err("no file".to_owned())) {
                Ok(experiment) => prop_assert!(!experiment.scenarios.is_empty()),
                Err(problems) => prop_assert!(!problems.as_slice().is_empty()),
            }
        }
    }
}

fn reference() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/experiment-file.md");
    std::fs::read_to_string(path).expect("the reference")
}

/// The known names that the problems of a text list for `zzz`.
fn known(text: &str) -> Vec<String> {
    let problems = common::problems(text, &Options::default());
    let (_, list) = problems.split_once("zzz: is an unknown key; known: ").unwrap_or_else(|| panic!("{problems}"));
    list.lines().next().unwrap_or_default().split(", ").map(str::to_owned).collect()
}

#[test]
fn the_example_of_the_reference_is_valid_with_and_without_its_variant() {
    let reference = reference();
    let example = reference.split("```").nth(1).and_then(|block| block.strip_prefix("toml\n")).expect("an example");
    for variant in [None, Some("short".to_owned())] {
        let options = Options { variant, ..Options::default() };
        let read = common::read_with(example, &options).unwrap_or_else(|problems| panic!("{problems}"));
        assert_eq!(read.scenarios[0].schedule.len(), 1);
    }
}

#[test]
fn every_key_is_in_the_reference() {
    let reference = reference();
    let base = "duration = \"1s\"\nnodes = [\"a\", \"b\"]\n";
    for section in [
        "zzz = 1",
        "[links.l]\nzzz = 1",
        "[links.l]\njitter = { zzz = 1 }",
        "[links.l]\nqueue = { zzz = 1, discipline = \"codel\" }",
        "[links.l]\nloss = { zzz = 1 }",
        "[links.l]\nreorder = { zzz = 1, probability = 1 }",
        "[links.l]\nforward = { zzz = 1 }",
        "[lans.l]\nzzz = 1",
        "[[schedule]]\nzzz = 1",
        "[[schedule]]\nsteps = [ { zzz = 1 } ]",
        "[[schedule]]\nsteps = []\nzzz = 1",
        "[flows.f]\nzzz = 1",
        "[flows.f]\nprotocol = \"udp\"\nzzz = 1",
        "[flows.f]\ncount = 2\nzzz = 1",
        "[mice.m]\nzzz = 1",
        "[mice.m]\nload = 0.2\nzzz = 1",
        "[mice.m]\nbytes = { zzz = 1 }",
        "[[published]]\nzzz = 1",
        "[programs.p]\nzzz = 1",
        "[record]\nzzz = 1",
        "[validity]\nzzz = 1",
        "[[sweep]]\nzzz = 1",
        "[plot]\nzzz = 1",
    ] {
        for key in known(&format!("{base}{section}\n")) {
            assert!(
                reference.contains(&format!("`{key}`")) || reference.contains(&format!("{key} = ")),
                "{section}: {key}"
            );
        }
    }
}

#[test]
fn the_divisions_of_intermixing_have_the_packets_of_table_3_1() {
    // Overall and flow 2's, from table 3.1; the link limited to 400 Mb/s without a division from figure 3.27.
    for (variant, all, second, bps) in [
        (None, 1_255_719.0, 80_265.0, 1_000_000_000),
        (Some("half"), 1_277_522.0, 80_570.0, 1_000_000_000),
        (Some("uneven"), 1_271_193.0, 37_012.0, 1_000_000_000),
        (Some("static"), 1_097_496.0, 40_766.0, 1_000_000_000),
        (Some("limited"), 597_526.0, 15_091.0, 400_000_000),
        (Some("limited-half"), 583_193.0, 37_803.0, 400_000_000),
        (Some("limited-uneven"), 598_630.0, 18_993.0, 400_000_000),
    ] {
        let s = &scenarios("intermixing.toml", variant)[0];
        let values: Vec<f64> = s.published.iter().map(|p| p.value).collect();
        assert_eq!(values, [all, second], "{variant:?}");
        assert_eq!(s.links[0].forward.capacity, Capacity::Constant(Rate::from_bps(1_000_000_000)), "{variant:?}");
        // The paper limits by traffic control; classes of the full link share a little less than the link.
        let held = s.nodes[0].shape.first().and_then(|(_, policy)| policy.egress.as_ref()).map(|side| side.rate);
        let expected = if bps < 1_000_000_000 { bps } else { 990_000_000 };
        assert_eq!(held, variant.map(|_| Rate::from_bps(expected)), "{variant:?}");
    }
}

#[test]
fn twenty_elephants_join_one_after_the_other_and_mice_take_a_fifth_of_the_rate() {
    let s = &scenarios("mice-and-elephants.toml", None)[0];
    assert_eq!(s.flows.len(), 20);
    assert_eq!((s.flows[19].name.as_str(), s.flows[19].start), ("elephant-20", Duration::from_millis(47_500)));
    // 86 250 B / 0.7 on average; a fifth of 200 Mb/s are 40.6 a second.
    let a_second = 1.0 / s.mice[0].every.as_secs_f64();
    assert!((a_second - 40e6 / (8.0 * 86_250.0 / 0.7)).abs() < 1e-3, "{a_second}");
}
