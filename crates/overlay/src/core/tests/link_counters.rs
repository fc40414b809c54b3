//! Byte counters of links.

use super::*;

#[test]
fn byte_counters_of_a_link_outlast_its_sessions() {
    let mut world = World::new(2);
    let mut before = [0; 4];
    let mut sessions = std::collections::BTreeSet::new();
    // Two rekeys after 120 s each, the removal of old sessions after 180 s, then a departure and a new session.
    for second in 0..260 {
        if second == 250 {
            let now = world.now;
            world.hosts[1].core.announce_departure(now);
            world.process_outputs(1);
        }
        world.run(SECOND);
        sessions.extend(world.hosts[0].core.net.session(number(1)).map(|s| s.local));
        let now = world.now;
        let [a, b] = [(0, 1), (1, 0)].map(|(a, b)| world.hosts[a].core.link_view(number(b), now).unwrap());
        let counters = [a.tx_bytes, a.rx_bytes, b.tx_bytes, b.rx_bytes];
        assert!(counters.iter().zip(before).all(|(now, before)| *now >= before), "{second} s: {before:?} {counters:?}");
        before = counters;
    }
    assert!(sessions.len() >= 3, "{}", sessions.len());
    // Without loss the receiver counts what the sender counts, except for datagrams in flight and the last moments of a
    // session.
    let [sent, received, ..] = before;
    let all: u64 = world
        .capture
        .iter()
        .filter(|(from, _, d)| *from == 0 && d[0] >= 0xb4)
        .map(|(_, _, d)| d.len() as u64 + 28)
        .sum();
    assert!(sent <= all && sent > all / 100 * 99, "{sent} of {all}");
    assert!(received > 1_000_000, "{received}");
}
