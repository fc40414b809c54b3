use units::Duration;

use super::*;

const UNKNOWN: Rate = Rate::from_bps(5);

fn metrics(ms: u64, loss: f64) -> Metrics {
    Metrics::exact(Some(Rate::from_bps(1_000_000)), Duration::from_millis(ms), loss)
}

fn graph(relays: &[u32], links: &[(u32, u32)]) -> Graph {
    let mut graph = Graph::new(UNKNOWN);
    relays.iter().for_each(|m| graph.set_member(Member(*m), true));
    for (from, to) in links {
        assert!(graph.set(Member(*from), Member(*to), metrics(10, 0.1)));
    }
    graph
}

fn via(relays: &[u32], destination: u32) -> Path {
    Path::via(&relays.iter().map(|m| Member(*m)).collect::<Vec<_>>(), Member(destination)).unwrap()
}

#[test]
fn a_path_has_the_metrics_of_its_links_together() {
    let graph = graph(&[1, 2], &[(0, 1), (1, 2), (2, 3)]);
    let whole = graph.metrics(Member(0), &via(&[1, 2], 3)).unwrap();
    assert_eq!(whole.rtt, Duration::from_millis(30));
    // 1 - 0.9^3.
    assert!((whole.loss - 0.271).abs() < 1e-12);
    assert_eq!(graph.len(), 3);
}

#[test]
fn a_path_with_a_missing_link_or_an_unwilling_relay_is_none() {
    let graph = graph(&[1], &[(0, 1), (1, 2), (0, 3), (3, 2)]);
    assert!(graph.metrics(Member(0), &via(&[1], 2)).is_some());
    assert_eq!(graph.metrics(Member(0), &via(&[3], 2)), None, "3 has not consented");
    assert_eq!(graph.metrics(Member(0), &Path::direct(Member(2))), None);
    assert_eq!(graph.metrics(Member(2), &via(&[1], 0)), None, "links have a direction");
    assert_eq!(graph.metrics(Member(0), &Path::direct(Member(0))), None);
    assert_eq!(graph.metrics(Member(1), &via(&[1], 2)), None, "a path back to its source");
}

#[test]
fn a_link_of_unknown_capacity_is_searched_by_the_given_one_and_not_said_to_have_it() {
    let mut graph = Graph::new(UNKNOWN);
    graph.set(Member(0), Member(1), Metrics::exact(None, Duration::ZERO, 0.0));
    assert_eq!(graph.link(Member(0), Member(1)).unwrap().capacity, None);
    let fronts = crate::Fronts::full(&graph, Member(0));
    let best = |capacity: u64| {
        let mut fewer = graph.clone();
        for (from, to) in [(0, 2), (2, 1)] {
            fewer.set_member(Member(2), true);
            fewer.set(Member(from), Member(to), Metrics::exact(Some(Rate::from_bps(capacity)), Duration::ZERO, 0.0));
        }
        crate::Fronts::full(&fewer, Member(0)).candidates(&fewer, Member(1)).map(|(path, _)| path).collect::<Vec<_>>()
    };
    assert_eq!(fronts.candidates(&graph, Member(1)).count(), 1);
    // A way over a relay is worth a look where it carries more than that.
    assert_eq!(best(UNKNOWN.as_bps()), [Path::direct(Member(1))]);
    assert_eq!(best(UNKNOWN.as_bps() + 1).len(), 2);
}

#[test]
fn nonsense_is_refused() {
    let mut graph = Graph::new(UNKNOWN);
    assert!(!graph.set(Member(1), Member(1), metrics(1, 0.0)));
    assert!(!graph.set(Member(0), Member(1), metrics(1, f64::NAN)));
    assert!(!graph.remove(Member(0), Member(1)));
    graph.remove_member(Member(5));
    assert!(graph.is_empty());
    assert_eq!(graph.members().count(), 0);
}

#[test]
fn what_is_removed_leaves_nothing_behind() {
    let mut graph = graph(&[1, 2], &[(0, 1), (1, 0), (1, 2), (2, 1), (7, 8)]);
    graph.remove_member(Member(1));
    assert_eq!(graph.len(), 1);
    assert_eq!(graph.members().collect::<Vec<_>>(), [2, 7, 8].map(Member), "0 was known by its links only");
    assert!(graph.remove(Member(7), Member(8)));
    assert_eq!(graph.members().collect::<Vec<_>>(), [Member(2)]);
    assert!(graph.is_empty());
    // Numbers of nodes are used again.
    for i in 0..1000 {
        graph.set(Member(i), Member(i + 1), metrics(1, 0.0));
        graph.remove(Member(i), Member(i + 1));
    }
    assert!(graph.nodes().len() <= 5, "{}", graph.nodes().len());
}
