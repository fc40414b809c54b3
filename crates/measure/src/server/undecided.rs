//! Connections that have not yet said what they want. A newcomer is never refused: where there are too many, the oldest one makes room.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

/// Most undecided connections of one network. A client opens up to 256 data connections at once (128 streams in two
/// directions); several clients may do so at the same time.
const PER_NETWORK: usize = 300;

/// Most undecided connections in all.
const IN_ALL: usize = 1024;

/// The undecided connections, each with what closes it (`T`), oldest first.
#[derive(Debug)]
pub(super) struct Undecided<T> {
    networks: BTreeMap<IpAddr, VecDeque<(u64, T)>>,
    total: usize,
    next: u64,
}

impl<T> Default for Undecided<T> {
    fn default() -> Self {
        Self { networks: BTreeMap::new(), total: 0, next: 0 }
    }
}

impl<T> Undecided<T> {
    /// Adds a connection; its number, and the connection that has to make room for it: the oldest of the same network when that has too
    /// many, else the oldest of the network with most when there are too many in all.
    pub(super) fn add(&mut self, network: IpAddr, connection: T) -> (u64, Option<T>) {
        let here = self.networks.get(&network).map_or(0, VecDeque::len);
        let crowded = if here >= PER_NETWORK {
            Some(network)
        } else if self.total >= IN_ALL {
            self.networks.iter().max_by_key(|(_, c)| c.len()).map(|(n, _)| *n)
        } else {
            None
        };
        let evicted = crowded.and_then(|n| self.take_oldest(n));
        let number = self.next;
        self.next += 1;
        self.total += 1;
        self.networks.entry(network).or_default().push_back((number, connection));
        (number, evicted)
    }

    /// The connection is decided or gone; one that made room is none any more.
    pub(super) fn remove(&mut self, network: IpAddr, number: u64) {
        let Some(connections) = self.networks.get_mut(&network) else { return };
        let before = connections.len();
        connections.retain(|(n, _)| *n != number);
        self.total -= before - connections.len();
        if connections.is_empty() {
            self.networks.remove(&network);
        }
    }

    fn take_oldest(&mut self, network: IpAddr) -> Option<T> {
        let connections = self.networks.get_mut(&network)?;
        let (_, oldest) = connections.pop_front()?;
        self.total -= 1;
        if connections.is_empty() {
            self.networks.remove(&network);
        }
        Some(oldest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(n: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, n])
    }

    #[test]
    fn a_network_with_too_many_connections_loses_its_oldest() {
        let mut undecided = Undecided::default();
        for i in 0..PER_NETWORK {
            assert_eq!(undecided.add(network(1), i).1, None);
        }
        assert_eq!(undecided.add(network(2), 1000).1, None);
        assert_eq!(undecided.add(network(1), 1001).1, Some(0));
        assert_eq!(undecided.add(network(1), 1002).1, Some(1));
    }

    #[test]
    fn a_newcomer_is_let_in_at_the_cost_of_the_busiest_network() {
        let mut undecided = Undecided::default();
        let mut attack = 0;
        for n in 1..=4 {
            for _ in 0..if n == 4 { IN_ALL - 3 * 250 } else { 250 } {
                undecided.add(network(n), attack);
                attack += 1;
            }
        }
        assert_eq!(undecided.total, IN_ALL);
        let (number, evicted) = undecided.add(network(9), -1);
        assert!(evicted.is_some_and(|e| e >= 3 * 250), "the oldest of the network with most: {evicted:?}");
        // Its flood goes on, and never reaches the newcomer.
        for i in 0..5000 {
            assert_ne!(undecided.add(network(5 + (i % 4) as u8 % 3), i).1, Some(-1));
        }
        undecided.remove(network(9), number);
        undecided.remove(network(9), number);
        assert_eq!(undecided.total, IN_ALL - 1);
    }

    #[test]
    fn what_ends_is_given_back() {
        let mut undecided = Undecided::default();
        let numbers: Vec<_> = (0..PER_NETWORK).map(|i| undecided.add(network(1), i).0).collect();
        let (_, evicted) = undecided.add(network(1), PER_NETWORK);
        assert_eq!(evicted, Some(0));
        numbers.into_iter().for_each(|n| undecided.remove(network(1), n));
        assert_eq!(undecided.total, 1);
    }
}
