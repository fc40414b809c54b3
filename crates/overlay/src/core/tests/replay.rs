//! A simulation depends on its seeds and inputs only.

use sha2::{Digest, Sha256};

use super::*;

/// Hash of all datagrams of a simulation, with their ends: handshakes, gossip, probes and packets.
fn trace(seed: u64) -> [u8; 32] {
    let mut world = World::new(4);
    let now = world.now;
    world.hosts[0] = Host::new(settings(0, 4), seed, now);
    world.set(0, 1, Some(Wire { loss: 0.05, ..WIRE }));
    world.run(3 * SECOND);
    world.flow(0, 1, 5 * SECOND);
    world.set(0, 1, None);
    world.flow(0, 1, 125 * SECOND);
    let mut hash = Sha256::new();
    for (from, to, datagram) in &world.capture {
        hash.update([*from as u8, *to as u8]);
        hash.update(datagram);
    }
    hash.finalize().into()
}

#[test]
fn equal_seeds_give_equal_datagrams_and_others_do_not() {
    assert_eq!(trace(5), trace(5));
    assert_ne!(trace(5), trace(6));
}
