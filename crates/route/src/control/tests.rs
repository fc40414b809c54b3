mod load;
mod worth;

use units::Duration;

use super::*;
use crate::{Hold, Model};

const SOURCE: Member = Member(0);
const NORTH: Member = Member(1);
const SOUTH: Member = Member(2);
const EAST: Member = Member(3);
const MBPS: u64 = 1_000_000;

fn at(seconds: f64) -> Instant {
    Instant::ZERO + Duration::from_secs_f64(seconds)
}

/// 100 Mb/s and 20 ms, exactly known.
fn link(loss: f64) -> Metrics {
    Metrics::exact(Some(Rate::from_bps(100 * MBPS)), Duration::from_millis(20), loss)
}

fn north() -> Path {
    Path::via(&[NORTH], EAST).unwrap()
}

fn south() -> Path {
    Path::via(&[SOUTH], EAST).unwrap()
}

/// The paper's topology *Domestic*: from the source to the east over a north and a south bridge. What is reported comes each 200 ms.
struct Domestic {
    control: Control,
    now: f64,
    /// Losses of both bridges; `None`: down.
    losses: [Option<f64>; 2],
    /// By how much each may be off.
    doubts: [f64; 2],
    /// What the links by each bridge carry; `None`: nobody knows.
    capacities: [Option<Rate>; 2],
}

impl Domestic {
    fn new(policy: Policy) -> Self {
        let mut control = Control::new(SOURCE, policy).unwrap();
        for member in [NORTH, SOUTH] {
            control.handle_member(at(0.0), member, Some(true)).unwrap();
        }
        control.handle_member(at(0.0), EAST, Some(false)).unwrap();
        Self {
            control,
            now: 0.0,
            losses: [Some(0.01), Some(0.01)],
            doubts: [0.0; 2],
            capacities: [link(0.0).capacity; 2],
        }
    }

    /// Runs until this time. What was decided about the east, in its first place.
    fn until(&mut self, end: f64) -> Vec<Decision> {
        let mut decided = Vec::new();
        while self.now < end - 1e-9 {
            self.report();
            self.now += 0.2;
            decided.extend(self.pump());
        }
        decided
    }

    /// What is known of the links of both bridges.
    fn report(&mut self) {
        for (i, bridge) in [NORTH, SOUTH].into_iter().enumerate() {
            let doubt = self.doubts[i];
            let capacity = self.capacities[i];
            let metrics = self.losses[i].map(|loss| Metrics {
                capacity,
                loss_low: (loss - doubt).max(0.0),
                loss_high: loss + doubt,
                ..link(loss)
            });
            self.control.handle_link(at(self.now), SOURCE, bridge, metrics).unwrap();
            self.control.handle_link(at(self.now), bridge, EAST, Some(Metrics { capacity, ..link(0.0) })).unwrap();
        }
    }

    fn pump(&mut self) -> Vec<Decision> {
        let mut calls = 0;
        while let Some(due) = self.control.poll_timeout().filter(|due| *due <= at(self.now)) {
            self.control.handle_timeout(due);
            calls += 1;
            assert!(calls < 100, "asks to be called again and again");
        }
        let all = core::iter::from_fn(|| self.control.poll_decision());
        all.filter(|d| d.destination == EAST && d.place == 0).collect()
    }

    fn path(&self) -> Option<Path> {
        self.control.paths(EAST).first().map(|w| w.path)
    }

    fn holds(&self, path: Path) -> Vec<Hold> {
        let why = self.control.why(EAST).unwrap();
        why.candidates.into_iter().find(|c| c.path == path).map(|c| c.holds).unwrap_or_default()
    }
}

/// By which ratios of rates are easily told.
const BY_ROOT: Model = Model::Safire { k: 1.0 };

fn single() -> Policy {
    Policy::default().single_path()
}

fn reasons(decisions: &[Decision]) -> Vec<(Option<Path>, Reason)> {
    decisions.iter().map(|d| (d.to, d.reason)).collect()
}

#[test]
fn the_first_path_is_the_best_one() {
    let mut net = Domestic::new(single());
    net.losses = [Some(0.05), Some(0.01)];
    let decided = net.until(1.0);
    assert_eq!(reasons(&decided), [(Some(south()), Reason::Initial)]);
    assert!(decided[0].at <= at(0.2), "{:?}", decided[0].at);
}

#[test]
fn a_better_path_is_taken_by_the_margin_and_not_below() {
    // Rates are as 1 / sqrt(p). 0.0105 over 0.005 is 1.449, 0.012 over 0.005 is 1.549.
    for (loss, changes) in [(0.0105, 0), (0.012, 1)] {
        let mut net = Domestic::new(Policy { model: BY_ROOT, ..single() });
        net.losses = [Some(0.005), Some(0.006)];
        net.until(30.0);
        assert_eq!(net.path(), Some(north()));
        net.losses = [Some(loss), Some(0.005)];
        let decided = net.until(40.0);
        assert_eq!(decided.len(), changes, "{loss}: {decided:?}");
    }
}

#[test]
fn a_change_is_confirmed_first() {
    let mut net = Domestic::new(Policy { degraded_share: 0.0, ..single() });
    net.losses = [Some(0.005), Some(0.006)];
    net.until(30.0);
    net.losses = [Some(0.05), Some(0.005)];
    let decided = net.until(35.0);
    assert_eq!(reasons(&decided), [(Some(south()), Reason::Better)]);
    // Seen within 100 ms, confirmed for 500 ms.
    let after = decided[0].at.saturating_since(at(30.0)).as_secs_f64();
    assert!((0.5..=0.7).contains(&after), "{after}");
}

#[test]
fn a_single_bad_report_changes_nothing() {
    let mut net = Domestic::new(Policy { degraded_share: 0.0, ..single() });
    net.losses = [Some(0.005), Some(0.006)];
    net.until(30.0);
    net.losses = [Some(0.2), Some(0.006)];
    let mut decided = net.until(30.2);
    net.losses = [Some(0.005), Some(0.006)];
    decided.extend(net.until(40.0));
    assert_eq!(decided, []);
}

#[test]
fn the_last_change_must_be_past_but_not_for_a_path_that_collapsed() {
    for (degraded_share, least, most) in [(0.0, 9.9, 10.6), (0.7, 1.5, 1.7)] {
        let mut net = Domestic::new(Policy { degraded_share, suppress: Duration::ZERO, ..single() });
        net.losses = [Some(0.005), Some(0.006)];
        net.until(30.0);
        net.losses = [Some(0.05), Some(0.005)];
        let first = net.until(31.6).remove(0);
        net.losses = [Some(0.005), Some(0.05)];
        let second = net.until(60.0).remove(0);
        let between = second.at.saturating_since(first.at).as_secs_f64();
        assert!((least..=most).contains(&between), "{degraded_share}: {between}");
        let expected = if degraded_share > 0.0 { Reason::Degraded } else { Reason::Restored };
        assert_eq!(second.reason, expected);
    }
}

#[test]
fn a_failed_path_is_left_at_once_and_returned_to_slowly() {
    let mut net = Domestic::new(Policy { jitter: 0.0, ..single() });
    net.losses = [Some(0.001), Some(0.05)];
    net.until(5.0);
    assert_eq!(net.path(), Some(north()));
    net.losses[0] = None;
    let decided = net.until(5.2);
    assert_eq!(reasons(&decided), [(Some(south()), Reason::Failed)]);
    assert_eq!(decided[0].at, at(5.0), "without waiting for other news");
    // Back after a second, and better by far: it is suppressed for 8 s, and the hold-down is 10 s.
    net.until(6.0);
    net.losses[0] = Some(0.001);
    let back = net.now;
    net.until(7.0);
    assert!(matches!(net.holds(north())[..], [Hold::Damped { .. }, ..]), "{:?}", net.holds(north()));
    let decided = net.until(60.0);
    assert_eq!(reasons(&decided), [(Some(north()), Reason::Restored)]);
    let after = decided[0].at.saturating_since(at(back)).as_secs_f64();
    assert!((8.9..9.6).contains(&after), "{after}");
}

#[test]
fn a_path_that_flaps_is_suppressed_longer_each_time() {
    let mut net = Domestic::new(Policy { hold_down: Duration::ZERO, jitter: 0.0, ..single() });
    net.losses = [Some(0.001), Some(0.005)];
    net.until(5.0);
    let mut times = Vec::new();
    for _ in 0..4 {
        net.losses[0] = None;
        let failed = net.now;
        net.until(net.now + 1.0);
        net.losses[0] = Some(0.001);
        while net.path() != Some(north()) {
            net.until(net.now + 0.1);
        }
        times.push(net.now - failed);
        net.until(net.now + 20.0);
    }
    // 8 s doubled with each further flap, of which half are forgotten in 600 s: 1, 1.97, 2.89 and 3.72 flaps. Half a
    // second of confirmation follows, and two steps of 0.1 s.
    for (time, expected) in times.iter().zip([8.0, 15.64, 29.6, 52.85]) {
        assert!((0.5..0.8).contains(&(time - expected)), "{times:?}");
    }
}

#[test]
fn what_is_left_is_used_even_if_it_is_not_to_be_relied_on() {
    let mut net = Domestic::new(single());
    net.losses = [Some(0.01), None];
    net.until(5.0);
    net.losses = [None, None];
    let decided = net.until(6.0);
    assert_eq!(reasons(&decided), [(None, Reason::Failed)]);
    assert_eq!(net.control.paths(EAST), []);
    net.losses = [Some(0.01), None];
    let decided = net.until(7.0);
    assert_eq!(reasons(&decided), [(Some(north()), Reason::Initial)]);
}

#[test]
fn a_link_that_nobody_speaks_of_is_down() {
    let mut net = Domestic::new(single());
    net.losses = [Some(0.001), Some(0.01)];
    net.until(5.0);
    assert_eq!(net.path(), Some(north()));
    // South's links go on being reported, north's do not.
    let mut decided = Vec::new();
    while net.now < 12.0 {
        net.control.handle_link(at(net.now), SOURCE, SOUTH, Some(link(0.01))).unwrap();
        net.control.handle_link(at(net.now), SOUTH, EAST, Some(link(0.0))).unwrap();
        net.now += 0.2;
        decided.extend(net.pump());
    }
    assert_eq!(reasons(&decided), [(Some(south()), Reason::Failed)]);
    // The last report was at 4.8 s, the silence is 5 s.
    assert_eq!(decided[0].at, at(9.8));
}

#[test]
fn old_reports_do_not_displace_new_ones() {
    let mut control = Control::new(SOURCE, single()).unwrap();
    control.handle_link(at(10.0), SOURCE, EAST, Some(link(0.01))).unwrap();
    let old = Metrics { age: Duration::from_secs(1), ..link(0.5) };
    control.handle_link(at(10.1), SOURCE, EAST, Some(old)).unwrap();
    assert_eq!(control.graph().link(SOURCE, EAST).unwrap().loss, 0.01);
    control.handle_link(at(10.2), SOURCE, NORTH, Some(Metrics { age: Duration::from_secs(5), ..old })).unwrap();
    assert_eq!(control.graph().link(SOURCE, NORTH), None);
}

#[test]
fn a_relay_that_no_longer_consents_is_left_at_once() {
    let mut net = Domestic::new(single());
    net.losses = [Some(0.001), Some(0.01)];
    net.until(5.0);
    net.control.handle_member(at(5.0), NORTH, Some(false)).unwrap();
    assert_eq!(reasons(&net.pump()), [(Some(south()), Reason::Failed)]);
    // It can still be reached itself.
    assert_eq!(net.control.paths(NORTH)[0].path, Path::direct(NORTH));
}

#[test]
fn who_leaves_takes_its_paths_along() {
    let mut net = Domestic::new(single());
    net.losses = [Some(0.001), Some(0.01)];
    net.until(5.0);
    net.control.handle_member(at(5.0), EAST, None).unwrap();
    assert_eq!(reasons(&net.pump()), [(None, Reason::Removed)]);
    assert_eq!(net.control.paths(EAST), []);
    assert_eq!(net.control.why(EAST), None);
    assert_eq!(net.control.destinations().collect::<Vec<_>>(), [NORTH, SOUTH]);
}

#[test]
fn losses_counted_from_few_packets_change_nothing() {
    let mut net = Domestic::new(single());
    net.losses = [Some(0.05), Some(0.0)];
    // None of 30 packets lost: Wilson's 95 % interval ends at 0.1135. It may be worse than 0.05.
    net.doubts[1] = 0.1135;
    assert_eq!(reasons(&net.until(20.0)), [(Some(north()), Reason::Initial)]);
    assert!(
        matches!(net.holds(south())[..], [Hold::NotSignificant { ratio }] if ratio < 1.0),
        "{:?}",
        net.holds(south())
    );
    // None of 400: it ends at 0.0095.
    net.doubts[1] = 0.0095;
    assert_eq!(reasons(&net.until(25.0)), [(Some(south()), Reason::Better)]);
}

#[test]
fn a_link_that_is_said_to_fail_all_the_time_has_nobody_compute_all_the_time() {
    let mut net = Domestic::new(single());
    net.until(2.0);
    let mut decided = 0;
    // Each millisecond for a second: down, and up again.
    for ms in 0..1000 {
        let now = at(2.0 + f64::from(ms) / 1e3);
        let metrics = (ms % 2 == 1).then(|| link(0.0));
        net.control.handle_link(now, SOUTH, EAST, metrics).unwrap();
        if net.control.poll_timeout().is_some_and(|due| due <= now) {
            net.control.handle_timeout(now);
            decided += 1;
        }
    }
    assert!((10..=50).contains(&decided), "{decided}");
}

#[test]
fn a_path_of_which_nobody_knows_what_it_carries_is_not_taken_for_its_capacity() {
    let mut net = Domestic::new(single());
    (net.losses, net.capacities[1]) = ([Some(0.0), None], None);
    net.until(2.0);
    // It is there now, and might carry 1 Gb/s, as far as the policy knows.
    net.losses[1] = Some(0.0);
    assert_eq!(reasons(&net.until(20.0)), []);
    assert!(matches!(net.holds(south())[..], [Hold::Margin { .. }, ..]), "{:?}", net.holds(south()));
    // It does.
    net.capacities[1] = Some(Rate::from_bps(1000 * MBPS));
    assert_eq!(reasons(&net.until(25.0)), [(Some(south()), Reason::Better)]);
}

#[test]
fn a_path_that_loses_much_is_left_for_one_of_which_nobody_knows_what_it_carries() {
    let mut net = Domestic::new(single());
    (net.losses, net.capacities[1]) = ([Some(0.0), Some(0.05)], None);
    net.until(2.0);
    net.losses = [Some(0.05), Some(0.0)];
    let decided = net.until(20.0);
    assert_eq!(decided.first().and_then(|d| d.to), Some(south()), "{decided:?}");
}

#[test]
fn both_of_two_disjoint_paths_are_used_in_proportion() {
    let mut net = Domestic::new(Policy { model: BY_ROOT, ..Policy::default() });
    net.losses = [Some(0.01), Some(0.02)];
    net.until(5.0);
    let paths = net.control.paths(EAST);
    assert_eq!(paths.iter().map(|w| (w.path, w.place)).collect::<Vec<_>>(), [(north(), 0), (south(), 1)]);
    // As sqrt(0.02 / 0.01): 0.586 and 0.414.
    assert!((paths[0].weight - 0.5858).abs() < 0.001, "{paths:?}");
    assert!((paths[0].weight + paths[1].weight - 1.0).abs() < 1e-12);
    // The first fails, the second takes its place and is alone.
    net.losses[0] = None;
    net.until(6.0);
    let paths = net.control.paths(EAST);
    assert_eq!(paths.iter().map(|w| (w.path, w.weight)).collect::<Vec<_>>(), [(south(), 1.0)]);
}

#[test]
fn a_path_that_is_not_worth_its_relay_is_not_used_beside_a_good_one() {
    let mut net = Domestic::new(Policy::default());
    // Rates as sqrt(0.2 / 0.001): 14 to 1.
    net.losses = [Some(0.001), Some(0.2)];
    net.until(5.0);
    assert_eq!(net.control.paths(EAST).len(), 1);
}

#[test]
fn the_papers_policy_waits_with_a_failed_path_too() {
    let mut net = Domestic::new(Policy { link_timeout: Duration::from_secs(5), ..Policy::safire_2008() });
    net.losses = [Some(0.05), Some(0.15)];
    net.until(30.0);
    net.losses = [Some(0.15), Some(0.05)];
    // sqrt(3) is more than 1.5.
    let decided = net.until(40.0);
    assert_eq!(reasons(&decided), [(Some(south()), Reason::Better)]);
    assert!(decided[0].at <= at(31.1));
    net.losses = [Some(0.15), None];
    let decided = net.until(42.0);
    let first = decided[0].at;
    assert_eq!(reasons(&decided), [(Some(north()), Reason::Failed)], "T_ch is past");
    net.losses = [None, Some(0.05)];
    let decided = net.until(60.0);
    assert_eq!(reasons(&decided), [(Some(south()), Reason::Failed)]);
    assert_eq!(decided[0].at, first + Duration::from_secs(10), "T_ch holds a failed path");
}

#[test]
fn what_carries_its_capacity_is_not_left_for_an_idle_path() {
    let mut net = Domestic::new(single());
    net.losses = [Some(0.0005), Some(0.001)];
    net.until(20.0);
    assert_eq!(net.path(), Some(north()));
    // Ten flows on 100 Mb/s: each meets the loss that goes with 10 Mb/s. The other path is idle and loses nothing.
    net.losses = [Some(0.001), Some(0.0)];
    let mut decided = Vec::new();
    while net.now < 120.0 {
        let load = Load { flows: 10, carried: Rate::from_bps(95 * MBPS) };
        net.control.handle_load(at(net.now), north(), load);
        decided.extend(net.until(net.now + 0.2));
    }
    assert_eq!(decided, []);
    // Once it carries little, the same metrics are a reason.
    let decided = net.until(140.0);
    assert_eq!(reasons(&decided), [(Some(south()), Reason::Better)]);
}

#[test]
fn what_flows_lost_at_their_end_is_not_held_against_a_path_that_they_filled() {
    // The last flow ends, and what it has lost in its own queue is told then, and for some seconds.
    let after = |seconds: f64, next: Option<Load>| {
        let mut net = Domestic::new(single());
        net.losses = [Some(0.0), Some(0.0)];
        net.until(5.0);
        let path = net.path().unwrap();
        while net.now < 30.0 {
            net.control.handle_load(at(net.now), path, Load { flows: 1, carried: Rate::from_bps(90 * MBPS) });
            net.until(net.now + 0.2);
        }
        let lossy = usize::from(path == south());
        net.losses[lossy] = Some(0.003);
        let mut decided = Vec::new();
        while net.now < 60.0 {
            if net.now > 30.0 + seconds {
                net.losses[lossy] = Some(0.0);
            }
            // What is carried fades.
            let load = next.filter(|_| net.now > 31.0);
            net.control.handle_load(
                at(net.now),
                path,
                load.unwrap_or(Load { flows: 0, carried: Rate::from_bps(MBPS) }),
            );
            decided.extend(net.until(net.now + 0.2));
        }
        reasons(&decided).iter().map(|(_, reason)| *reason).collect::<Vec<_>>()
    };
    assert_eq!(after(8.0, None), []);
    // What is lost for longer, or while another flow gets little, the path loses by itself.
    assert_eq!(after(30.0, None), [Reason::Degraded]);
    assert_eq!(after(8.0, Some(Load { flows: 1, carried: Rate::from_bps(2 * MBPS) })), [Reason::Degraded]);
}

#[test]
fn a_flow_that_ended_slowly_does_not_hide_what_a_path_carries() {
    let mut net = Domestic::new(single());
    net.losses = [Some(0.0), Some(0.0)];
    net.until(5.0);
    let path = net.path().unwrap();
    let load = |flows: u32, mbps: u64| Load { flows, carried: Rate::from_bps(mbps * MBPS) };
    net.control.handle_load(at(net.now), path, load(1, 1));
    net.until(6.0);
    // Many small flows, none of them an elephant, fill it from now on.
    net.losses[usize::from(path == south())] = Some(0.003);
    let mut decided = Vec::new();
    net.control.handle_load(at(net.now), path, load(0, 90));
    while net.now < 30.0 {
        decided.extend(net.until(net.now + 0.2));
        net.control.handle_load(at(net.now), path, load(0, 90));
    }
    assert_eq!(decided, []);
}

#[test]
fn a_burst_on_a_path_that_is_not_full_does_not_hold_a_change_back() {
    // Of 100 Mb/s: what is a quarter of it may be full, what is a tenth is not, and loses by itself. Of a path that nobody has measured that cannot be said.
    for (is_known, carried, changes) in [(true, 10, 1), (true, 30, 0), (false, 10, 0)] {
        let mut net = Domestic::new(single());
        net.capacities = [link(0.0).capacity.filter(|_| is_known); 2];
        net.losses = [Some(0.005), Some(0.006)];
        net.until(30.0);
        net.losses = [Some(0.05), Some(0.001)];
        let mut decided = Vec::new();
        for tenth in 0..100 {
            let load = Load { flows: 1, carried: Rate::from_bps(carried * MBPS) };
            net.control.handle_load(at(net.now), north(), load);
            decided.extend(net.until(30.0 + 0.2 * f64::from(tenth)));
        }
        assert_eq!(decided.len(), changes, "{carried} Mb/s: {decided:?}");
    }
}

#[test]
fn the_explanation_tells_what_each_class_of_flows_would_get() {
    let mut net = Domestic::new(single());
    net.losses = [Some(0.04), Some(0.04)];
    net.until(5.0);
    let why = net.control.why(EAST).unwrap();
    // Two links of 20 ms and 100 Mb/s, one of which loses 0.04: 0.95 * 100 / ((1 + 25 * 0.04) (1 + 0.00274 * 40)) (equation 2).
    let told = [why.used[0].rate_aware.unwrap(), why.candidates[0].rate_aware];
    assert_eq!(told.map(|r| r.as_bps() / 10_000), [4280, 4280]);
    assert!(
        why.used[0].judged.unwrap().predicted.as_bps() < 3 * MBPS,
        "as the first class of flows is predicted: CUBIC"
    );
}

#[test]
fn a_further_path_that_our_flows_fill_is_kept_and_one_that_carries_little_is_not() {
    for (carried, kept) in [(90, 2), (2, 1)] {
        let mut net = Domestic::new(Policy::default());
        net.losses = [Some(0.0), Some(0.0)];
        net.until(20.0);
        let further = net.control.paths(EAST)[1].path;
        // Slow start loses as much at a full queue: by the formula the path gives next to nothing.
        net.losses = if further == south() { [Some(0.0), Some(0.2)] } else { [Some(0.2), Some(0.0)] };
        while net.now < 60.0 {
            let load = Load { flows: 2, carried: Rate::from_bps(carried * MBPS) };
            net.control.handle_load(at(net.now), further, load);
            net.until(net.now + 0.2);
        }
        assert_eq!(net.control.paths(EAST).len(), kept, "{carried} Mb/s");
    }
}

#[test]
fn the_loss_that_our_own_flows_make_is_not_held_against_others_on_the_same_link() {
    // One flow to the east fills the link to the northern bridge; nothing goes to that bridge itself, and the way to it by the south loses nothing.
    for (carried, expected) in [(90, Vec::new()), (2, vec![Reason::Degraded])] {
        let mut net = Domestic::new(single());
        net.losses = [Some(0.0), Some(0.01)];
        let mut decided = Vec::new();
        while net.now < 60.0 {
            net.control.handle_link(at(net.now), SOUTH, NORTH, Some(link(0.0))).unwrap();
            if net.now > 10.0 {
                net.losses = [Some(0.002), Some(0.0)];
                let load = Load { flows: 1, carried: Rate::from_bps(carried * MBPS) };
                net.control.handle_load(at(net.now), north(), load);
            }
            net.now += 0.2;
            net.report();
            while let Some(due) = net.control.poll_timeout().filter(|due| *due <= at(net.now)) {
                net.control.handle_timeout(due);
            }
            decided.extend(core::iter::from_fn(|| net.control.poll_decision()));
        }
        let of_north = decided.iter().filter(|d| d.destination == NORTH && d.reason != Reason::Initial);
        // At 2 Mb/s the loss is the link's own, as a flow over it shows.
        assert_eq!(of_north.map(|d| d.reason).collect::<Vec<_>>(), expected, "{carried}");
    }
}

#[test]
fn a_way_that_was_left_for_a_better_one_is_there_when_that_one_fails() {
    let mut net = Domestic::new(single());
    net.losses = [Some(0.0001), Some(0.05)];
    net.until(5.0);
    // A link of its own is shorter.
    let direct = Path::direct(EAST);
    while net.path() != Some(direct) {
        net.control.handle_link(at(net.now), SOURCE, EAST, Some(link(0.0))).unwrap();
        net.until(net.now + 0.2);
        assert!(net.now < 10.0);
    }
    assert!(matches!(net.holds(north())[..], [Hold::Damped { .. }, ..]), "no way back without need");
    // The southern way is shorter by now, and so it is not out of the question.
    let shorter = Metrics { rtt: Duration::from_millis(10), ..link(0.0) };
    net.control.handle_link(at(net.now), SOUTH, EAST, Some(shorter)).unwrap();
    net.control.handle_link(at(net.now), SOURCE, EAST, None).unwrap();
    net.now += 0.2;
    assert_eq!(reasons(&net.pump()), [(Some(north()), Reason::Failed)]);
}

#[test]
fn the_explanation_says_what_holds_a_change_back() {
    let mut net = Domestic::new(Policy { confirm: Duration::from_secs(5), degraded_share: 0.0, ..single() });
    net.losses = [Some(0.001), Some(0.0011)];
    net.until(5.0);
    let [Hold::Margin { required }, ..] = net.holds(south())[..] else { panic!("{:?}", net.holds(south())) };
    let utility = net.control.why(EAST).unwrap().used[0].judged.unwrap().utility[1];
    assert!((required.as_bps() as f64 / utility.as_bps() as f64 - 1.5).abs() < 1e-6);
    net.losses = [Some(0.05), Some(0.001)];
    net.until(7.0);
    let [Hold::Confirmation { until }] = net.holds(south())[..] else { panic!("{:?}", net.holds(south())) };
    assert!((4.9..=5.3).contains(&until.saturating_since(at(5.0)).as_secs_f64()));
    let text = net.control.why(EAST).unwrap().to_string();
    for expected in ["00000003\n  uses via 00000001 for ", "\n  could via 00000002: ", "not now: to be confirmed"] {
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn limits_and_nonsense_are_refused() {
    let mut control = Control::new(SOURCE, Policy { max_links: 1, max_members: 1, ..single() }).unwrap();
    let now = at(1.0);
    assert_eq!(control.handle_member(now, EAST, Some(true)), Ok(()));
    assert_eq!(control.handle_member(now, NORTH, Some(true)), Err(Error::Members(1)));
    assert_eq!(control.handle_link(now, SOURCE, EAST, Some(link(0.0))), Ok(()));
    assert_eq!(control.handle_link(now, SOURCE, NORTH, Some(link(0.0))), Err(Error::Links(1)));
    assert_eq!(control.handle_link(now, SOURCE, EAST, Some(link(0.1))), Ok(()), "known already");
    for (to, metrics) in [(SOURCE, link(0.0)), (EAST, link(f64::NAN)), (EAST, link(2.0))] {
        let refused = control.handle_link(now, SOURCE, to, Some(metrics)).unwrap_err();
        assert_eq!(refused, Error::Metrics { from: SOURCE, to });
    }
    assert_eq!(control.handle_link(now, NORTH, EAST, None), Ok(()), "down as before");
    let wrong = Policy { model: Model::Safire { k: f64::NAN }, ..single() };
    assert!(Control::new(SOURCE, wrong).is_err());
}

#[test]
fn nothing_is_due_where_nothing_happens() {
    let control = Control::new(SOURCE, single()).unwrap();
    assert_eq!(control.poll_timeout(), None);
    let mut net = Domestic::new(single());
    net.until(5.0);
    // Only the links' silence is ahead.
    net.control.handle_timeout(at(5.2));
    assert!(net.control.poll_timeout().unwrap() > at(5.2));
}

/// The way that is used, and how many changes there were, when the straight link comes up, as after an outage, beside a bridge that loses `bridge`.
fn with_straight_link(policy: Policy, (bridge, bridge_doubt): (f64, f64), straight: Metrics) -> (Path, usize) {
    let mut net = Domestic::new(policy);
    (net.losses, net.doubts) = ([Some(bridge); 2], [bridge_doubt; 2]);
    net.until(5.0);
    let straight = Metrics { rtt: Duration::from_millis(30), ..straight };
    let mut decided = Vec::new();
    for second in 6..60 {
        net.control.handle_link(at(net.now), SOURCE, EAST, Some(straight)).unwrap();
        decided.extend(net.until(f64::from(second)));
    }
    (net.control.paths(EAST)[0].path, decided.len())
}

#[test]
fn a_way_without_relays_is_gone_back_to_when_it_is_as_good() {
    // Two links of 20 ms, one of which loses 0.01.
    assert_eq!(with_straight_link(single(), (0.01, 0.0), link(0.01)), (Path::direct(EAST), 1));
    let (path, changes) = with_straight_link(single(), (0.01, 0.0), link(0.02));
    assert!(!path.relays().is_empty() && changes == 0, "it is worse, if not by much");
    let (path, _) = with_straight_link(Policy::safire_2008(), (0.01, 0.0), link(0.01));
    assert!(!path.relays().is_empty(), "the paper looks at the rate alone");
}

#[test]
fn a_way_without_relays_is_as_good_though_few_frames_tell() {
    // Nothing of 10,000 frames of a flow, and of 300 probes; trains told two per cent less.
    let probed = Metrics { capacity: Some(Rate::from_bps(98 * MBPS)), loss_high: 0.0128, ..link(0.0) };
    assert_eq!(with_straight_link(single(), (0.0, 0.000_38), probed), (Path::direct(EAST), 1));
    // 15 of 300 for 0.05 of 10,000.
    let probed = Metrics { loss_low: 0.031, loss_high: 0.081, ..link(0.05) };
    let (_, changes) = with_straight_link(single(), (0.05, 0.0043), probed);
    assert_eq!(changes, 0, "it may lose 0.1");
    // The same of ten times as many.
    let probed = Metrics { loss_low: 0.043, loss_high: 0.058, ..link(0.05) };
    assert_eq!(with_straight_link(single(), (0.05, 0.0043), probed), (Path::direct(EAST), 1));
    // 6 of 50 of the bridge's: it may lose half as much as the straight link.
    let (_, changes) = with_straight_link(single(), (0.12, 0.064), link(0.12));
    assert_eq!(changes, 0, "the bridge may be better than it looks");
}

#[test]
fn while_nothing_tells_what_paths_carry_the_direct_link_is_used() {
    // It has just come up, and few frames speak for it.
    let few = Metrics { capacity: None, confidence: 0.1, loss_high: 0.4, ..link(0.0) };
    let chosen = |direct: Metrics, capacity: Option<Rate>| {
        let mut control = Control::new(SOURCE, Policy::default()).unwrap();
        for member in [NORTH, EAST] {
            control.handle_member(at(0.0), member, Some(true)).unwrap();
        }
        let beside = Metrics { capacity, ..link(0.0) };
        for (from, to, metrics) in [(SOURCE, NORTH, beside), (NORTH, EAST, beside), (SOURCE, EAST, direct)] {
            control.handle_link(at(0.0), from, to, Some(metrics)).unwrap();
        }
        control.handle_timeout(at(1.0));
        control.paths(EAST).iter().map(|w| (w.path, w.assumed)).collect::<Vec<_>>()
    };
    assert_eq!(chosen(few, None), [(Path::direct(EAST), true)]);
    assert_eq!(chosen(Metrics { confidence: 1.0, ..few }, None), [(Path::direct(EAST), true)]);
    // Losses, and what another path is known to carry, are reasons for a detour.
    assert_eq!(chosen(Metrics { loss: 0.3, loss_low: 0.1, ..few }, None)[0].0, north());
    assert_eq!(chosen(few, link(0.0).capacity)[0], (north(), false));
    // A further path is taken once it is known what both carry.
    let known = |capacity| chosen(link(0.0), capacity).into_iter().map(|(path, _)| path).collect::<Vec<_>>();
    assert_eq!(known(link(0.0).capacity), [Path::direct(EAST), north()]);
}
