//! What a member does and says before anything was measured.

use super::*;

/// Whether any link of the world has a capacity that somebody knows.
fn is_measured(world: &World) -> bool {
    let count = world.hosts.len();
    let pairs = (0..count).flat_map(|a| (0..count).map(move |b| (a, b))).filter(|(a, b)| a != b);
    let view = |(a, b): (usize, usize)| world.hosts[a].mesh.link_view(number(b), world.now).unwrap();
    pairs.map(view).any(|v| v.capacity_to_bps.is_some() || v.capacity_from_bps.is_some())
}

#[test]
fn where_links_are_as_fast_as_trains_can_tell_nothing_goes_by_a_detour() {
    let mut world = World::new(3);
    world.run(10 * SECOND);
    assert!(is_measured(&world));
    for _ in 0..60 {
        world.run(SECOND);
        assert_eq!([1, 2].map(|to| world.hosts[0].ways(to)), [["direct"], ["direct"]]);
    }
}
