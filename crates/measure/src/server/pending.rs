//! Connections that have not sent a proposal. A new connection is never refused: above the limit, the oldest one is
//! closed.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

/// Maximum number of pending connections of one network. A client opens up to 256 data connections at once (128 streams
/// in two directions), and several clients may do so simultaneously.
const PER_NETWORK_MAX: usize = 300;

/// Maximum total number of pending connections.
const TOTAL_MAX: usize = 1024;

/// Pending connections, oldest first, each with a handle (`T`) that closes it.
#[derive(Debug)]
pub(super) struct PendingConnections<T> {
    networks: BTreeMap<IpAddr, VecDeque<(u64, T)>>,
    total: usize,
    next: u64,
}

impl<T> Default for PendingConnections<T> {
    fn default() -> Self {
        Self { networks: BTreeMap::new(), total: 0, next: 0 }
    }
}

impl<T> PendingConnections<T> {
    /// Adds a connection. Returns its number and the evicted connection: the oldest of the same network above the limit
    /// for one network, or the oldest of the network with the most connections above the total limit.
    pub(super) fn add(&mut self, network: IpAddr, connection: T) -> (u64, Option<T>) {
        let here = self.networks.get(&network).map_or(0, VecDeque::len);
        let crowded = if here >= PER_NETWORK_MAX {
            Some(network)
        } else if self.total >= TOTAL_MAX {
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

    /// Removes a connection that has sent its proposal or has ended; an evicted connection is already absent.
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
    fn a_network_above_its_limit_loses_its_oldest_connection() {
        let mut pending = PendingConnections::default();
        for i in 0..PER_NETWORK_MAX {
            assert_eq!(pending.add(network(1), i).1, None);
        }
        assert_eq!(pending.add(network(2), 1000).1, None);
        assert_eq!(pending.add(network(1), 1001).1, Some(0));
        assert_eq!(pending.add(network(1), 1002).1, Some(1));
    }

    #[test]
    fn a_new_connection_evicts_one_of_the_busiest_network() {
        let mut pending = PendingConnections::default();
        let mut attack = 0;
        for n in 1..=4 {
            for _ in 0..if n == 4 { TOTAL_MAX - 3 * 250 } else { 250 } {
                pending.add(network(n), attack);
                attack += 1;
            }
        }
        assert_eq!(pending.total, TOTAL_MAX);
        let (number, evicted) = pending.add(network(9), -1);
        assert!(evicted.is_some_and(|e| e >= 3 * 250), "the oldest of the busiest network: {evicted:?}");
        // The continuing flood never evicts the new connection.
        for i in 0..5000 {
            assert_ne!(pending.add(network(5 + (i % 4) as u8 % 3), i).1, Some(-1));
        }
        pending.remove(network(9), number);
        pending.remove(network(9), number);
        assert_eq!(pending.total, TOTAL_MAX - 1);
    }

    #[test]
    fn removed_connections_are_released() {
        let mut pending = PendingConnections::default();
        let numbers: Vec<_> = (0..PER_NETWORK_MAX).map(|i| pending.add(network(1), i).0).collect();
        let (_, evicted) = pending.add(network(1), PER_NETWORK_MAX);
        assert_eq!(evicted, Some(0));
        numbers.into_iter().for_each(|n| pending.remove(network(1), n));
        assert_eq!(pending.total, 1);
    }
}
