//! Changes of the links that a schedule makes, compared with changes computed by hand.

mod common;

use std::time::Duration;

use common::{ms, read};
use link::{Capacity, Loss, QueueLimit, Settings};
use scenario::{Change, LinkDirection, Scenario, describe};
use units::{Bytes, Rate};

/// Two links of 100 Mb/s and 10 ms; the schedule is added.
fn with(schedule: &str) -> Scenario {
    read(&format!(
        "duration = \"100s\"\nnodes = [\"a\", \"b\"]\n[defaults]\nrate = \"100Mb/s\"\ndelay = \"10ms\"\nloss = 0.15
         [links.north]\nbetween = [\"a\", \"b\"]\n[links.south]\nbetween = [\"a\", \"b\"]\n{schedule}"
    ))
}

/// Time in ms, link, direction and loss of each change.
fn losses(s: &Scenario) -> Vec<(u128, usize, LinkDirection, Loss)> {
    s.schedule.iter().map(|c| (c.at.as_millis(), c.link, c.direction, c.settings.loss)).collect()
}

fn rate(settings: &Settings) -> u64 {
    match settings.capacity {
        Capacity::Constant(rate) => rate.as_bps(),
        Capacity::Unlimited | Capacity::Trace(_) => panic!("no rate"),
    }
}

#[test]
fn a_step_changes_what_it_names_and_nothing_else() {
    let s = with("[[schedule]]\nat = \"60s\"\nlinks = [\"north\"]\ndirection = \"forward\"\nloss = 0.05");
    let settings = Settings { loss: Loss::Independent(0.05), ..s.links[0].forward.clone() };
    assert_eq!(
        s.schedule,
        [Change { at: Duration::from_secs(60), link: 0, direction: LinkDirection::Forward, settings }]
    );
    assert_eq!(s.describe_change(0), "north forward: loss 15 % -> 5 %");
}

#[test]
fn steps_build_on_each_other_in_the_order_of_time() {
    let s = with(
        "[[schedule]]\nat = \"20s\"\nlink = \"south\"\ndirection = \"backward\"\ndelay = \"30ms\"
         [[schedule]]\nat = \"10s\"\nlinks = \"all\"\ndirection = \"backward\"\nrate = \"1Mb/s\"",
    );
    let seen: Vec<_> =
        s.schedule.iter().map(|c| (c.at.as_secs(), c.link, rate(&c.settings), c.settings.delay)).collect();
    assert_eq!(seen, [(10, 0, 1_000_000, ms(10)), (10, 1, 1_000_000, ms(10)), (20, 1, 1_000_000, ms(30))]);
}

#[test]
fn a_loop_repeats_its_steps_until_the_end() {
    let s = with(
        "[[schedule]]\nlink = \"north\"\ndirection = \"forward\"\nperiod = \"40s\"\nsteps = [ { at = \"0s\", loss = 0.05 }, { at = \"20s\", loss = 0.15 } ]",
    );
    let (low, high) = (Loss::Independent(0.05), Loss::Independent(0.15));
    let times: Vec<_> = losses(&s).into_iter().map(|(at, _, _, loss)| (at / 1000, loss)).collect();
    assert_eq!(times, [(0, low), (20, high), (40, low), (60, high), (80, low)]);
}

#[test]
fn a_loop_may_start_later_and_end_earlier() {
    let s = with(
        "[[schedule]]\nat = \"5s\"\nuntil = \"26s\"\nlink = \"north\"\ndirection = \"forward\"\nperiod = \"10s\"\nsteps = [ { at = \"0s\", loss = 0.05 }, { at = \"1s\", loss = 0.15 } ]",
    );
    let times: Vec<_> = losses(&s).iter().map(|(at, ..)| at / 1000).collect();
    assert_eq!(times, [5, 6, 15, 16, 25]);
}

#[test]
fn a_ramp_goes_in_equal_steps_from_the_present_value_to_its_target() {
    let s = with(
        "[[schedule]]\nat = \"1s\"\nlink = \"north\"\ndirection = \"forward\"\nloss = 0\n[[schedule]]\nat = \"10s\"\nlink = \"north\"\ndirection = \"forward\"\nover = \"1s\"\nevery = \"250ms\"\nrate = \"20Mb/s\"\ndelay = \"50ms\"\nloss = 0.4",
    );
    let seen: Vec<_> = s.schedule[1..]
        .iter()
        .map(|c| (c.at.as_millis(), rate(&c.settings), c.settings.delay.as_millis(), c.settings.loss))
        .collect();
    let loss = Loss::Independent;
    let expected = [
        (10_250, 80_000_000, 20, loss(0.1)),
        (10_500, 60_000_000, 30, loss(0.2)),
        (10_750, 40_000_000, 40, loss(0.4 * 0.75)),
        (11_000, 20_000_000, 50, loss(0.4)),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn a_ramp_steps_every_50_ms_by_default_and_ends_on_its_target_between_steps() {
    let s = with(
        "[[schedule]]\nat = \"10s\"\nlink = \"north\"\ndirection = \"forward\"\nover = \"120ms\"\nrate = \"40Mb/s\"",
    );
    let seen: Vec<_> = s.schedule.iter().map(|c| (c.at.as_millis(), rate(&c.settings))).collect();
    assert_eq!(seen, [(10_050, 75_000_000), (10_100, 50_000_000), (10_120, 40_000_000)]);
}

#[test]
fn changes_during_an_outage_apply_at_its_end() {
    let s = with(
        "[[schedule]]\nat = \"30s\"\nlink = \"north\"\ndirection = \"forward\"\noutage = \"2s\"\n[[schedule]]\nat = \"31s\"\nlink = \"north\"\ndirection = \"forward\"\nloss = 0",
    );
    let seen: Vec<_> = s.schedule.iter().map(|c| (c.at.as_secs(), c.settings.up, c.settings.loss)).collect();
    let before = Loss::Independent(0.15);
    assert_eq!(seen, [(30, false, before), (31, false, Loss::None), (32, true, Loss::None)]);
    assert_eq!(s.describe_change(0), "north forward: down");
    assert_eq!(s.describe_change(2), "north forward: up");
}

#[test]
fn overlapping_outages_end_with_the_later_one() {
    let s = with(
        "[[schedule]]\nat = \"30s\"\nlink = \"north\"\ndirection = \"forward\"\noutage = \"5s\"\n[[schedule]]\nat = \"32s\"\nlink = \"north\"\ndirection = \"forward\"\noutage = \"10s\"",
    );
    let seen: Vec<_> = s.schedule.iter().map(|c| (c.at.as_secs(), c.settings.up)).collect();
    assert_eq!(seen, [(30, false), (42, true)]);
}

#[test]
fn of_two_steps_at_one_time_the_later_in_the_file_wins_and_makes_one_change() {
    let s = with(
        "[[schedule]]\nat = \"30s\"\nlink = \"north\"\ndirection = \"forward\"\nloss = 0.3\n[[schedule]]\nat = \"30s\"\nlink = \"north\"\ndirection = \"forward\"\nloss = 0.4\ndelay = \"1ms\"",
    );
    assert_eq!(losses(&s), [(30_000, 0, LinkDirection::Forward, Loss::Independent(0.4))]);
}

#[test]
fn a_step_without_effect_makes_no_change() {
    assert_eq!(with("[[schedule]]\nat = \"30s\"\nlink = \"north\"\nloss = 0.15").schedule, []);
}

#[test]
fn a_queue_in_bandwidth_delay_products_uses_the_rate_and_delay_after_the_step() {
    let s = with("[[schedule]]\nat = \"30s\"\nlink = \"north\"\nqueue = \"2 bdp\"\ndelay = \"50ms\"\nrate = \"8Mb/s\"");
    // 8 Mb/s x 100 ms = 100 kB, twice.
    let limits: Vec<_> = s.schedule.iter().map(|c| c.settings.queue.limit).collect();
    assert_eq!(limits, [QueueLimit::Bytes(Bytes::new(200_000)); 2]);
    assert_eq!(rate(&s.schedule[0].settings), Rate::from_bps(8_000_000).as_bps());
}

#[test]
fn settings_are_described_in_common_units() {
    let link = |keys: &str| {
        let text = format!("duration = \"1s\"\nnodes = [\"a\", \"b\"]\n[links.l]\nbetween = [\"a\", \"b\"]\n{keys}");
        describe(&read(&text).links[0].forward)
    };
    assert_eq!(
        link("rate = \"1Gb/s\"\ndelay = \"93.5ms\"\nqueue = \"24MB\"\nloss = 0.001"),
        "1 Gb/s, 93.5 ms, queue 24 MB, loss 0.1 %"
    );
    assert_eq!(link(""), "no rate limit, 0 s");
    assert_eq!(
        link(
            "rate = \"1234567b/s\"\nloss = 0.07\nqueue = { limit = \"1 packets\", discipline = \"codel\" }\nup = false\noverhead = \"ip\""
        ),
        "1.234567 Mb/s, 0 s, queue 1 packet CoDel (5 ms, 100 ms), loss 7 %, overhead none, down"
    );
    assert_eq!(link("delay = \"20us\"\njitter = \"1ms\""), "no rate limit, 20 us, jitter 1 ms uniform");
}
