//! What is counted of links.

use super::*;

#[test]
fn what_went_over_a_link_is_counted_beyond_the_end_of_its_sessions() {
    let mut world = World::new(2);
    let mut before = [0; 4];
    let mut sessions = std::collections::BTreeSet::new();
    // Keys are renewed after 120 s, and the old ones dropped after 180 s; then a member leaves and comes again.
    for second in 0..260 {
        if second == 250 {
            let now = world.now;
            world.hosts[1].core.announce_departure(now);
            world.settle(1);
        }
        world.run(SECOND);
        sessions.extend(world.hosts[0].core.net.session(number(1)).map(|s| s.local));
        let now = world.now;
        let [a, b] = [(0, 1), (1, 0)].map(|(a, b)| world.hosts[a].core.link_view(number(b), now).unwrap());
        let counted = [a.tx_bytes, a.rx_bytes, b.tx_bytes, b.rx_bytes];
        assert!(counted.iter().zip(before).all(|(now, before)| *now >= before), "{second} s: {before:?} {counted:?}");
        before = counted;
    }
    assert!(sessions.len() >= 3, "{}", sessions.len());
    // Nothing is lost on the way, so that what one sent the other received, but for what is on its way and the last
    // moments of a session.
    let [sent, received, ..] = before;
    let all: u64 =
        world.seen.iter().filter(|(from, _, d)| *from == 0 && d[0] >= 0xb4).map(|(_, _, d)| d.len() as u64 + 28).sum();
    assert!(sent <= all && sent > all / 100 * 99, "{sent} of {all}");
    assert!(received > 1_000_000, "{received}");
}
