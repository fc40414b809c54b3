use proptest::prelude::*;
use units::Bytes;

use super::*;
use crate::Model;

const SOURCE: Member = Member(0);
const UNKNOWN: Rate = Rate::from_bps(1_000_000_000);
const MODELS: [Model; 5] =
    [Model::Safire { k: 1.0 }, Model::Pftk, Model::Cubic, Model::RateBased, Model::RATE_AWARE_2008];

fn rate(model: Model) -> impl Fn(&Metrics) -> Rate {
    move |m| model.predict(m, Bytes::new(1448), UNKNOWN)
}

fn metrics(mbps: u64, ms: u64, loss: f64) -> Metrics {
    let exact = Metrics::exact(Some(Rate::from_bps(mbps * 1_000_000)), Duration::from_millis(ms), loss);
    // Doubts that are not in the order of the losses.
    Metrics { loss_high: (loss + 0.1 * (loss * 1000.0).fract()).min(1.0), ..exact }
}

/// All paths that there are, one by one.
fn all_paths(graph: &Graph, destination: Member) -> Vec<(Path, Metrics)> {
    let mut found = Vec::new();
    let mut open: Vec<Vec<Member>> = vec![Vec::new()];
    while let Some(relays) = open.pop() {
        let path = Path::via(&relays, destination).unwrap();
        if let Some(m) = exact_metrics(graph, &path) {
            found.push((path, m));
        }
        if relays.len() < MAX_RELAYS {
            let free = |m: &Member| *m != SOURCE && *m != destination && !relays.contains(m);
            open.extend(graph.members().filter(free).map(|m| relays.iter().copied().chain([m]).collect::<Vec<_>>()));
        }
    }
    found
}

/// Composed as the search does, survival by survival: the last digit of a float depends on the order.
fn exact_metrics(graph: &Graph, path: &Path) -> Option<Metrics> {
    let whole = graph.metrics(SOURCE, path)?;
    let survival = path.links(SOURCE).filter_map(|(a, b)| graph.link(a, b)).map(|m| 1.0 - m.loss).product::<f64>();
    Some(Metrics::exact(whole.capacity, whole.rtt, 1.0 - survival))
}

/// Of some members and whatever links: few different values, so that there are many ties, and zeros.
fn graphs(members: u32) -> impl Strategy<Value = Graph> {
    let value = (0_u64..5, 0_u64..6, prop_oneof![Just(0.0), Just(0.01), Just(0.1), Just(1.0), 0.0_f64..0.3]);
    let link = (0..members, 0..members, value);
    let relays = proptest::collection::vec(proptest::bool::weighted(0.8), members as usize);
    (proptest::collection::vec(link, 0..60), relays).prop_map(|(links, relays)| {
        let mut graph = Graph::new(UNKNOWN);
        relays.iter().enumerate().for_each(|(m, relays)| graph.set_member(Member(m as u32), *relays));
        for (from, to, (mbps, ms, loss)) in links {
            graph.set(Member(from), Member(to), metrics(mbps, ms * 10, loss));
        }
        graph
    })
}

type Step = (u32, u32, Option<(u64, u64, f64)>);

fn steps(members: u32) -> impl Strategy<Value = Vec<Vec<Step>>> {
    let value = (0_u64..5, 0_u64..6, prop_oneof![Just(0.0), 0.0_f64..0.3]);
    let step = (0..members, 0..members, proptest::option::weighted(0.7, value));
    proptest::collection::vec(proptest::collection::vec(step, 1..4), 1..8)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn the_best_path_is_the_best_of_all_paths(graph in graphs(7)) {
        let fronts = Fronts::full(&graph, SOURCE);
        for destination in (1..7).map(Member) {
            let all = all_paths(&graph, destination);
            for model in MODELS {
                let found = fronts.best(&graph, destination, rate(model));
                prop_assert_eq!(found.map(|f| f.1), all.iter().map(|(_, m)| rate(model)(m)).max());
                // And is a path of that rate.
                if let Some((path, best)) = found {
                    prop_assert_eq!(exact_metrics(&graph, &path).map(|m| rate(model)(&m)), Some(best));
                }
            }
        }
    }

    #[test]
    fn the_front_is_that_of_all_paths(graph in graphs(7)) {
        let fronts = Fronts::full(&graph, SOURCE);
        for destination in (1..7).map(Member) {
            let all = all_paths(&graph, destination);
            let covers = |a: &(Path, Metrics), b: &(Path, Metrics)| {
                a.1.capacity >= b.1.capacity && a.1.rtt <= b.1.rtt && a.1.loss <= b.1.loss
                    && a.0.relays().len() <= b.0.relays().len()
            };
            let kept: Vec<_> = fronts.candidates(&graph, destination).collect();
            for path in &all {
                prop_assert!(kept.iter().any(|k| covers(k, path)), "{path:?} is covered by none of {kept:?}");
            }
            for (i, path) in kept.iter().enumerate() {
                prop_assert!(all.iter().any(|a| a.0 == path.0), "{path:?} is no path");
                prop_assert!(kept.iter().enumerate().all(|(j, k)| i == j || !covers(k, path)), "{path:?} is covered");
            }
        }
    }

    #[test]
    fn updates_give_what_a_full_computation_gives(graph in graphs(7), steps in steps(7)) {
        let mut graph = graph;
        let mut kinds = [Fronts::full, Fronts::surest].map(|kind| (kind, kind(&graph, SOURCE)));
        for step in steps {
            let mut changed = Vec::new();
            for (from, to, value) in step {
                let (from, to) = (Member(from), Member(to));
                match value {
                    Some((mbps, ms, loss)) => { graph.set(from, to, metrics(mbps, ms * 10, loss)); }
                    None => { graph.remove(from, to); }
                }
                changed.push((from, to));
            }
            for (kind, fronts) in &mut kinds {
                fronts.update(&graph, &changed);
                let full = kind(&graph, SOURCE);
                for destination in (1..7).map(Member) {
                    let all = |f: &Fronts| f.candidates(&graph, destination).collect::<Vec<_>>();
                    prop_assert_eq!(all(fronts), all(&full));
                }
            }
        }
    }

    #[test]
    fn one_destinations_search_finds_what_the_search_for_all_finds(graph in graphs(7)) {
        let fronts = Fronts::full(&graph, SOURCE);
        for destination in (1..7).map(Member) {
            let all: Vec<_> = fronts.candidates(&graph, destination).collect();
            prop_assert_eq!(candidates(&graph, SOURCE, destination, Except::default()), all);
        }
    }

    #[test]
    fn disjoint_paths_share_nothing_and_each_is_the_best_that_is_left(graph in graphs(7)) {
        for destination in (1..7).map(Member) {
            let score = rate(Model::Cubic);
            let found = disjoint(&graph, SOURCE, destination, 3, &score);
            let all = all_paths(&graph, destination);
            for (i, (_, best)) in found.iter().enumerate() {
                let left = all.iter().filter(|(p, _)| found[..i].iter().all(|(f, _)| f.is_disjoint(p)));
                prop_assert_eq!(Some(*best), left.map(|(_, m)| score(m)).max());
            }
            let left = all.iter().filter(|(p, _)| found.iter().all(|(f, _)| f.is_disjoint(p))).count();
            prop_assert!(found.len() == 3 || left == 0);
        }
    }
}

/// The paper's topology *Forward* (figure 2): by way of `top` the fast satellite link, by way of north or south the slow one.
#[test]
fn in_the_papers_forward_topology_the_fast_satellite_wins_until_it_loses() {
    let [west, north, south, top, east] = [0, 1, 2, 3, 4].map(Member);
    let mut graph = Graph::new(UNKNOWN);
    [north, south, top].iter().for_each(|m| graph.set_member(*m, true));
    graph.set(west, top, metrics(45, 150, 0.0));
    graph.set(top, east, metrics(100, 1, 0.0));
    for bridge in [north, south] {
        graph.set(west, bridge, metrics(100, 1, 0.0));
        graph.set(bridge, east, metrics(3, 270, 0.0));
    }
    let safire = rate(Model::Safire { k: 1.0 });
    let best = |graph: &Graph| Fronts::full(graph, west).best(graph, east, &safire).unwrap();
    assert_eq!(best(&graph).0.relays(), [top]);
    assert_eq!(best(&graph).1, Rate::from_bps(45_000_000));
    // Lost one in a hundred: 1448 B / (151 ms x 0.1) = 0.77 Mb/s, the slow link has 3.
    graph.set(west, top, metrics(45, 150, 0.01));
    assert_eq!(
        best(&graph),
        (Path::via(&[north], east).unwrap(), Rate::from_bps(3_000_000)),
        "north sorts before south"
    );
    let disjoint: Vec<Path> = disjoint(&graph, west, east, 5, &safire).iter().map(|(p, _)| *p).collect();
    assert_eq!(disjoint, [north, south, top].map(|m| Path::via(&[m], east).unwrap()));
}

#[test]
fn four_relays_are_too_many() {
    let mut graph = Graph::new(UNKNOWN);
    for m in 1..=5 {
        graph.set_member(Member(m), true);
        graph.set(Member(m - 1), Member(m), metrics(1, 1, 0.0));
    }
    let fronts = Fronts::full(&graph, SOURCE);
    assert_eq!(fronts.best(&graph, Member(4), rate(Model::Cubic)).unwrap().0.relays(), [1, 2, 3].map(Member));
    assert_eq!(fronts.best(&graph, Member(5), rate(Model::Cubic)), None);
    assert_eq!(fronts.best(&graph, SOURCE, rate(Model::Cubic)), None);
    assert_eq!(fronts.best(&graph, Member(77), rate(Model::Cubic)), None);
}

/// The links of a member over many relays to another one, of which each has more capacity and a longer round trip than the one before: no path covers another one.
fn incomparable(relays: u32) -> Graph {
    let mut graph = Graph::new(UNKNOWN);
    for m in 1..=relays {
        graph.set_member(Member(m), true);
        graph.set(SOURCE, Member(m), metrics(u64::from(m), u64::from(m), 0.0));
        graph.set(Member(m), Member(1000), metrics(1000, 1, 0.0));
    }
    graph
}

fn relays_of(fronts: &Fronts, graph: &Graph) -> Vec<Path> {
    fronts.candidates(graph, Member(1000)).map(|(path, _)| path).collect()
}

#[test]
fn made_up_metrics_do_not_make_fronts_grow_without_bound() {
    let mut graph = incomparable(500);
    let mut fronts = Fronts::full(&graph, SOURCE);
    assert_eq!(fronts.candidates(&graph, Member(1000)).count(), MOST_KEPT);
    graph.remove(SOURCE, Member(7));
    fronts.update(&graph, &[(SOURCE, Member(7))]);
    let all = |f: &Fronts| f.candidates(&graph, Member(1000)).collect::<Vec<_>>();
    assert_eq!(all(&fronts), all(&Fronts::full(&graph, SOURCE)));
}

#[test]
fn updates_of_large_fronts_give_what_a_full_computation_gives() {
    // Some sixty paths on a front; links get better and worse, some of them so much that they cover many others or none.
    let mut graph = incomparable(60);
    for m in 1..60 {
        graph.set(Member(m), Member(m + 1), metrics(500, 3, 0.001));
        graph.set(Member(m), Member(60 - m), metrics(700, 2, 0.01));
    }
    let mut fronts = Fronts::full(&graph, SOURCE);
    let kept = relays_of(&fronts, &graph).len();
    assert!(kept >= 60, "{kept}");
    for step in 0..600_u64 {
        let draw = |n: u64, below: u64| (step * 2_654_435_761 + n * 40_503) / 97 % below;
        let relay = Member(1 + draw(1, 60) as u32);
        let link = match draw(2, 3) {
            0 => (SOURCE, relay),
            1 => (relay, Member(1000)),
            _ => (relay, Member(1 + draw(3, 60) as u32)),
        };
        if draw(4, 8) == 0 {
            graph.remove(link.0, link.1);
        } else {
            graph.set(link.0, link.1, metrics(1 + draw(5, 80), 1 + draw(6, 80), draw(7, 5) as f64 / 1000.0));
        }
        fronts.update(&graph, &[link]);
        let full = Fronts::full(&graph, SOURCE);
        for destination in graph.members() {
            let all = |f: &Fronts| f.candidates(&graph, destination).collect::<Vec<_>>();
            assert_eq!(all(&fronts), all(&full), "{step}: {destination}");
        }
    }
}

#[test]
fn a_front_that_comes_to_be_cut_and_no_longer_is_that_of_a_full_computation() {
    let mut graph = incomparable(MOST_KEPT as u32);
    let more = Member(MOST_KEPT as u32 + 1);
    graph.set_member(more, true);
    let mut fronts = Fronts::full(&graph, SOURCE);
    assert_eq!(relays_of(&fronts, &graph).len(), MOST_KEPT);
    let long = metrics(u64::from(more.0), u64::from(more.0), 0.0);
    for (kept, metrics) in [(MOST_KEPT, Some(long)), (MOST_KEPT, None)] {
        for link in [(SOURCE, more), (more, Member(1000))] {
            match metrics {
                Some(metrics) => graph.set(link.0, link.1, metrics),
                None => graph.remove(link.0, link.1),
            };
            fronts.update(&graph, &[link]);
        }
        assert_eq!(relays_of(&fronts, &graph), relays_of(&Fronts::full(&graph, SOURCE), &graph));
        assert_eq!(relays_of(&fronts, &graph).len(), kept);
    }
}

#[test]
fn a_path_that_few_packets_speak_for_does_not_hide_a_sure_one() {
    let mut graph = Graph::new(UNKNOWN);
    graph.set_member(Member(1), true);
    let guess = Metrics { loss_high: 0.3, ..Metrics::exact(None, Duration::from_millis(10), 0.0) };
    graph.set(SOURCE, Member(2), guess);
    for (from, to) in [(0, 1), (1, 2)] {
        graph.set(Member(from), Member(to), Metrics::exact(None, Duration::from_millis(10), 0.01));
    }
    let relays =
        |fronts: Fronts| fronts.candidates(&graph, Member(2)).map(|(p, _)| p.relays().len()).collect::<Vec<_>>();
    assert_eq!(relays(Fronts::full(&graph, SOURCE)), [0]);
    assert_eq!(relays(Fronts::surest(&graph, SOURCE)), [0, 1]);
}
