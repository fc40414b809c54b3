//! Routes of small networks, compared with routes found by hand.

mod common;

use common::{problems, read};
use proptest::prelude::*;
use scenario::{Medium, Options, Scenario};

fn network(nodes: &str, media: &str) -> Scenario {
    let nodes: Vec<String> = nodes.split(' ').map(|n| format!("\"{n}\"")).collect();
    read(&format!("duration = \"1s\"\nnodes = [{}]\n{media}", nodes.join(", ")))
}

fn links(ends: &[(&str, &str, u32)]) -> String {
    let link = |(i, (a, b, cost)): (usize, &(&str, &str, u32))| {
        format!("[links.l{i}]\nbetween = [\"{a}\", \"{b}\"]\ncost = {cost}\n")
    };
    ends.iter().enumerate().map(link).collect()
}

/// The names of the nodes on the path, and the media between them.
fn route(s: &Scenario, from: &str, to: &str) -> Option<(String, Vec<Medium>)> {
    let find = |name: &str| s.nodes.iter().position(|n| n.name == name);
    let (mut at, to) = (find(from)?, find(to)?);
    let (mut names, mut media) = (from.to_owned(), Vec::new());
    while at != to {
        assert!(media.len() < s.nodes.len(), "a loop: {names}");
        let route = s.nodes[at].routes.iter().find(|r| r.to == to)?;
        at = route.next;
        names = format!("{names} {}", s.nodes[at].name);
        media.push(route.over);
    }
    Some((names, media))
}

fn names(s: &Scenario, from: &str, to: &str) -> String {
    route(s, from, to).map(|(names, _)| names).unwrap_or_default()
}

#[test]
fn the_shortest_path_wins_and_passes_the_nodes_between() {
    let s = network("a b c d", &links(&[("a", "b", 1), ("b", "c", 1), ("c", "d", 1), ("d", "a", 1)]));
    assert_eq!(names(&s, "a", "d"), "a d");
    assert_eq!(s.nodes[0].routes.len(), 3);
    assert_eq!(s.nodes[0].ipv4.to_string(), "10.0.0.1");
    assert_eq!(s.nodes[3].ipv6.to_string(), "fd00::4");
}

#[test]
fn of_equal_paths_the_one_with_the_earliest_link_wins_in_both_directions() {
    // The second half of the southern path is listed before that of the northern one.
    let s = network("a n s b", &links(&[("a", "n", 1), ("a", "s", 1), ("s", "b", 1), ("n", "b", 1)]));
    assert_eq!((names(&s, "a", "b"), names(&s, "b", "a")), ("a n b".to_owned(), "b n a".to_owned()));
}

#[test]
fn parallel_links_are_chosen_by_order_and_by_cost() {
    let s = network("a b", &links(&[("a", "b", 1), ("a", "b", 1)]));
    assert_eq!(route(&s, "b", "a").unwrap().1, [Medium::Link(0)]);
    let s = network("a b", &links(&[("a", "b", 2), ("a", "b", 1)]));
    assert_eq!(route(&s, "b", "a").unwrap().1, [Medium::Link(1)]);
}

#[test]
fn cost_goes_before_hops() {
    let s = network("a b c", &links(&[("a", "c", 5), ("a", "b", 2), ("b", "c", 2)]));
    assert_eq!(names(&s, "a", "c"), "a b c");
    let s = network("a b c", &links(&[("a", "b", 2), ("b", "c", 2), ("a", "c", 4)]));
    assert_eq!(names(&s, "a", "c"), "a c", "of equal costs the fewer hops");
}

#[test]
fn members_of_a_lan_are_neighbours() {
    let media = links(&[("g", "x", 1)]) + "[lans.west]\nmembers = [\"c1\", \"c2\", \"g\"]\n";
    let s = network("c1 c2 g x", &media);
    assert_eq!(route(&s, "c1", "c2").unwrap(), ("c1 c2".to_owned(), vec![Medium::Lan(0)]));
    assert_eq!(route(&s, "c2", "x").unwrap(), ("c2 g x".to_owned(), vec![Medium::Lan(0), Medium::Link(0)]));
    assert_eq!(route(&s, "x", "c2").unwrap().0, "x g c2");
}

#[test]
fn two_lans_are_joined_by_a_member_of_both() {
    let s = network("a r b", "[lans.one]\nmembers = [\"a\", \"r\"]\n[lans.two]\nmembers = [\"r\", \"b\"]\n");
    assert_eq!(route(&s, "a", "b").unwrap(), ("a r b".to_owned(), vec![Medium::Lan(0), Medium::Lan(1)]));
}

#[test]
fn a_node_without_links_is_valid_unless_traffic_uses_it() {
    let media = links(&[("a", "b", 1)]);
    assert_eq!(route(&network("a b c", &media), "a", "c"), None);
    let text =
        format!("duration = \"1s\"\nnodes = [\"a\", \"b\", \"c\"]\n{media}[flows.f]\nfrom = \"a\"\nto = \"c\"\n");
    let expected = "x.toml:6: flows.f: no links lead from a to c; connect them with links or LANs";
    assert_eq!(problems(&text, &Options::default()), expected);
}

#[test]
fn addresses_of_a_thousand_nodes_differ_and_none_ends_in_0_or_255() {
    let nodes: Vec<String> = (0..1000).map(|i| format!("n{i}")).collect();
    let s = network(&nodes.join(" "), "");
    let addresses: std::collections::BTreeSet<_> = s.nodes.iter().map(|n| n.ipv4).collect();
    assert_eq!(addresses.len(), 1000);
    assert!(addresses.iter().all(|a| a.octets()[..2] == [10, 0] && !matches!(a.octets()[3], 0 | 255)));
    assert_eq!(s.nodes[999].ipv6.to_string(), "fd00::3e8");
}

proptest! {
    #[test]
    fn hop_by_hop_forwarding_uses_the_cheapest_path_in_both_directions(
        ends in proptest::collection::vec((0..7_usize, 0..7_usize, 1..4_u32), 1..16),
    ) {
        let name = |i: usize| format!("n{i}");
        let named: Vec<_> = ends.iter().filter(|(a, b, _)| a != b).map(|(a, b, c)| (name(*a), name(*b), *c)).collect();
        let borrowed: Vec<_> = named.iter().map(|(a, b, c)| (a.as_str(), b.as_str(), *c)).collect();
        let s = network("n0 n1 n2 n3 n4 n5 n6", &links(&borrowed));
        let cheapest = floyd_warshall(&ends);
        for (from, row) in cheapest.iter().enumerate() {
            for (to, expected) in row.iter().enumerate() {
                let there = route(&s, &name(from), &name(to));
                let cost = there.as_ref().map(|(_, media)| media.iter().map(|m| match m {
                    Medium::Link(i) => borrowed[*i].2,
                    Medium::Lan(_) => 0,
                }).sum::<u32>());
                prop_assert_eq!(cost, *expected);
                let mut back = route(&s, &name(to), &name(from)).map(|(_, media)| media);
                if let Some(media) = &mut back {
                    media.reverse();
                }
                prop_assert_eq!(there.map(|(_, media)| media), back);
            }
        }
    }
}

/// Costs of the cheapest paths between seven nodes, by Floyd's algorithm.
fn floyd_warshall(ends: &[(usize, usize, u32)]) -> [[Option<u32>; 7]; 7] {
    let mut cost = [[None; 7]; 7];
    for (i, row) in cost.iter_mut().enumerate() {
        row[i] = Some(0);
    }
    let least = |a: Option<u32>, b: Option<u32>| [a, b].into_iter().flatten().min();
    for (a, b, c) in ends.iter().filter(|(a, b, _)| a != b) {
        cost[*a][*b] = least(cost[*a][*b], Some(*c));
        cost[*b][*a] = cost[*a][*b];
    }
    for k in 0..7 {
        for i in 0..7 {
            for j in 0..7 {
                let by_k = cost[i][k].zip(cost[k][j]).map(|(a, b)| a + b);
                cost[i][j] = least(cost[i][j], by_k);
            }
        }
    }
    cost
}
