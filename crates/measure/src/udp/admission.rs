//! Server side of the address validation: it determines which addresses may receive bulk datagrams.
//!
//! One thread answers on the UDP socket with the server's port. It keeps no state for unknown peers, answers only for
//! sessions of the sender's address, and its answers are never longer than the requests. It can therefore neither
//! amplify traffic nor run out of memory.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tracing::{debug, info};
use wire::{AddressSecret, UDP_CONTROL_BYTES, UdpControl};

use crate::address;
use crate::server::Registry;

/// Interval at which the thread detects the end of the server.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Minimum interval between log lines about ignored datagrams.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Validated client addresses of a session, by stream. The first proof of a stream counts.
#[derive(Debug, Default)]
pub(crate) struct Proofs(Mutex<BTreeMap<u32, SocketAddr>>);

impl Proofs {
    /// Returns whether the stream now belongs to `address`.
    fn insert(&self, stream: u32, address: SocketAddr) -> bool {
        *self.lock().entry(stream).or_insert(address) == address
    }

    /// Validated address of each stream.
    pub(super) fn all(&self) -> BTreeMap<u32, SocketAddr> {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<u32, SocketAddr>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts of datagrams without an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Ignored {
    /// Datagrams that are no control datagram of a client: bulk data of an ended session, or scans.
    malformed: u64,
    /// Datagrams for no session, or for a session of another address.
    unknown: u64,
    /// Datagrams with a wrong proof, or with a proof from a second address.
    unproven: u64,
}

/// Answer to a client, and the local address that sends it.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    from: IpAddr,
    control: UdpControl,
}

/// Handles each datagram.
struct Admission<'a> {
    registry: &'a Registry,
    secret: &'a AddressSecret,
    ignored: Ignored,
}

impl Admission<'_> {
    fn handle(&mut self, datagram: &[u8], client: SocketAddr) -> Option<Answer> {
        let token = match UdpControl::decode(datagram) {
            Some(UdpControl::Hello { token } | UdpControl::Proof { token, .. }) => token,
            Some(UdpControl::Challenge { .. } | UdpControl::Ready { .. }) | None => {
                self.ignored.malformed += 1;
                return None;
            }
        };
        let found = self.registry.find_stream(token).filter(|(session, _)| session.address == client.ip());
        let Some((session, stream)) = found else {
            self.ignored.unknown += 1;
            return None;
        };
        let control = match UdpControl::decode(datagram)? {
            UdpControl::Proof { nonce, .. } => {
                if !self.secret.verify(token, client, &nonce) || !session.proofs.insert(stream, client) {
                    self.ignored.unproven += 1;
                    return None;
                }
                UdpControl::Ready { token }
            }
            UdpControl::Hello { .. } | UdpControl::Challenge { .. } | UdpControl::Ready { .. } => {
                UdpControl::Challenge { token, nonce: self.secret.nonce(token, client) }
            }
        };
        Some(Answer { from: session.local, control })
    }
}

/// Answers on `socket` until `ended` is set.
pub(crate) fn admit(registry: &Registry, secret: &AddressSecret, socket: &UdpSocket, ended: &AtomicBool) {
    let mut admission = Admission { registry, secret, ignored: Ignored::default() };
    let mut buffer = [0; 32 * (UDP_CONTROL_BYTES + 1)];
    let (mut logged, mut next_log) = (Ignored::default(), kernel::now());
    while !ended.load(Ordering::Relaxed) {
        let got = kernel::recv_batch(socket, &mut buffer, |datagram| {
            if let Some(answer) = admission.handle(datagram.data, address::plain(datagram.from)) {
                let sent = kernel::send_datagram_from(socket, answer.from, datagram.from, &answer.control.encode());
                debug!(client = %datagram.from, answer = ?answer.control, ?sent, "UDP address");
            }
        });
        match got {
            Ok(0) => drop(kernel::wait(socket, false, POLL_INTERVAL)),
            Ok(_) => {}
            Err(e) => {
                info!(error = %e, "the UDP socket");
                kernel::sleep_for(POLL_INTERVAL);
            }
        }
        if admission.ignored != logged && kernel::now() >= next_log {
            logged = admission.ignored;
            next_log = kernel::now() + LOG_INTERVAL;
            let Ignored { malformed, unknown, unproven } = logged;
            info!(malformed, unknown, unproven, "datagrams ignored since the start");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::traffic::tests::plan;
    use super::*;
    use crate::server::{Joinable, SessionPermit};
    use results::{TestPlan, Transport};
    use std::sync::{Arc, mpsc};

    const NAME: [u8; 8] = [9; 8];
    const HOME: &str = "192.0.2.1:4000";

    const ONE: crate::server::RegistryLimits =
        crate::server::RegistryLimits { sessions: 1, sessions_per_network: 1, memory: units::Bytes::ZERO };

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn open(registry: &Registry, plan: TestPlan) -> (SessionPermit, Arc<Proofs>) {
        let (client, proofs) = (at(HOME).ip(), Arc::new(Proofs::default()));
        let mut permit = registry.admit(client, units::Bytes::ZERO).unwrap();
        let joinable = Joinable {
            plan: Arc::new(plan),
            client_nonce: [0; 16],
            server_nonce: [0; 16],
            address: client,
            local: at("192.0.2.9:0").ip(),
            proofs: Arc::clone(&proofs),
            inbox: mpsc::sync_channel(1).0,
        };
        registry.open(&mut permit, NAME, joinable);
        (permit, proofs)
    }

    fn two_streams() -> TestPlan {
        TestPlan { streams: 2, ..plan(Transport::UdpConstant, 1_000_000, 1000) }
    }

    #[test]
    fn a_client_validates_each_stream_with_the_nonce() {
        let (registry, secret) = (Registry::new(ONE), AddressSecret::new(&[1; 32]));
        let (_permit, proofs) = open(&registry, two_streams());
        let mut admission = Admission { registry: &registry, secret: &secret, ignored: Ignored::default() };
        for stream in 0..2 {
            let token = wire::stream_token(NAME, stream);
            let answer = admission.handle(&UdpControl::Hello { token }.encode(), at(HOME)).unwrap();
            assert_eq!(answer.from, at("192.0.2.9:0").ip());
            let UdpControl::Challenge { nonce, .. } = answer.control else { panic!("{answer:?}") };
            for _ in 0..2 {
                let ready = admission.handle(&UdpControl::Proof { token, nonce }.encode(), at(HOME)).unwrap();
                assert_eq!(ready.control, UdpControl::Ready { token }, "a lost answer is repeated");
            }
        }
        assert_eq!(proofs.all(), BTreeMap::from([(0, at(HOME)), (1, at(HOME))]));
        assert_eq!(admission.ignored, Ignored::default());
    }

    #[test]
    fn unknown_clients_get_no_answer_and_no_stream() {
        let (registry, secret) = (Registry::new(ONE), AddressSecret::new(&[1; 32]));
        let (permit, proofs) = open(&registry, two_streams());
        let mut admission = Admission { registry: &registry, secret: &secret, ignored: Ignored::default() };
        let hello = |name, stream| UdpControl::Hello { token: wire::stream_token(name, stream) }.encode();
        let token = wire::stream_token(NAME, 0);
        let nonce_of_another_port = secret.nonce(token, at("192.0.2.1:4001"));
        let foreign_proof = UdpControl::Proof { token, nonce: nonce_of_another_port }.encode();
        assert_eq!(admission.handle(&hello([8; 8], 0), at(HOME)), None, "no such session");
        assert_eq!(admission.handle(&hello(NAME, 2), at(HOME)), None, "no such stream");
        assert_eq!(admission.handle(&hello(NAME, 0), at("192.0.2.2:4000")), None, "another address");
        assert_eq!(admission.handle(&foreign_proof, at(HOME)), None, "not the nonce of this port");
        assert_eq!(admission.handle(&[b'2'; 1448], at(HOME)), None);
        assert_eq!(admission.handle(&UdpControl::Ready { token }.encode(), at(HOME)), None);
        assert_eq!(admission.ignored, Ignored { malformed: 2, unknown: 3, unproven: 1 });
        assert!(proofs.all().is_empty());
        drop(permit);
        assert_eq!(admission.handle(&hello(NAME, 0), at(HOME)), None, "the session has ended");
    }

    #[test]
    fn a_validated_stream_keeps_its_address() {
        let (registry, secret) = (Registry::new(ONE), AddressSecret::new(&[1; 32]));
        let (_permit, proofs) = open(&registry, two_streams());
        let mut admission = Admission { registry: &registry, secret: &secret, ignored: Ignored::default() };
        let token = wire::stream_token(NAME, 0);
        let mut prove =
            |from| admission.handle(&UdpControl::Proof { token, nonce: secret.nonce(token, from) }.encode(), from);
        assert!(prove(at(HOME)).is_some());
        assert_eq!(prove(at("192.0.2.1:4001")), None);
        assert_eq!(proofs.all(), BTreeMap::from([(0, at(HOME))]));
    }

    #[test]
    fn a_tcp_session_accepts_no_datagrams() {
        let (registry, secret) = (Registry::new(ONE), AddressSecret::new(&[1; 32]));
        let (_permit, _) = open(&registry, TestPlan { transport: Transport::Tcp, ..two_streams() });
        let mut admission = Admission { registry: &registry, secret: &secret, ignored: Ignored::default() };
        let hello = UdpControl::Hello { token: wire::stream_token(NAME, 0) }.encode();
        assert_eq!(admission.handle(&hello, at(HOME)), None);
    }
}
