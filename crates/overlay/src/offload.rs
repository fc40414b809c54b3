//! Whether this kernel takes and gives many datagrams at once without harming them: tried at the start, and turned off where it does not.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kernel::{DATAGRAMS_ROOM, Datagrams};
use units::Bytes;

use crate::settings::Offload;

/// Datagrams of a trial: all of [`EACH`] bytes but the last.
const DATAGRAMS: usize = 20;
const EACH: usize = 1400;
const LAST: usize = 333;
const PATIENCE: Duration = Duration::from_millis(200);

/// The four switches of a member that runs: what the kernel refuses later is off from then on.
#[derive(Default, Clone)]
pub(crate) struct Switches {
    at_start: Offload,
    sockets: Vec<Arc<Datagrams>>,
    /// The device takes no super-packets.
    pub(crate) device_refuses: Arc<AtomicBool>,
}

impl Switches {
    pub(crate) fn new(at_start: Offload, sockets: Vec<Arc<Datagrams>>) -> Self {
        Self { at_start, sockets, device_refuses: Arc::default() }
    }

    /// What is on.
    pub(crate) fn now(&self) -> Offload {
        Offload {
            udp_gso: self.at_start.udp_gso && self.sockets.iter().all(|s| s.segments()),
            tun_gro: self.at_start.tun_gro && !self.device_refuses.load(Ordering::Relaxed),
            ..self.at_start
        }
    }
}

/// What is asked for and works. `exchange` sends these bytes, cut into datagrams of `EACH`, with and without each of the two switches, and gives what
/// arrived; an error says that nothing can be tried here.
pub(crate) fn working(asked: Offload, exchange: impl Fn(&[u8], bool, bool) -> io::Result<Vec<Vec<u8>>>) -> Offload {
    let contents: Vec<u8> = (0..(DATAGRAMS - 1) * EACH + LAST).map(|i| (i / EACH * 31 + i % 251) as u8).collect();
    let is_wrong = |segment, coalesce| {
        let sent = contents.chunks(EACH);
        exchange(&contents, segment, coalesce).is_ok_and(|got| !got.iter().map(Vec::as_slice).eq(sent))
    };
    let mut works = asked;
    if asked.udp_gso && is_wrong(true, false) {
        works.udp_gso = false;
        tracing::warn!("this kernel does not cut many datagrams right (UDP_SEGMENT): they are sent one by one");
    }
    if asked.udp_gro && is_wrong(works.udp_gso, true) {
        works.udp_gro = false;
        tracing::warn!("this kernel does not put datagrams together right (UDP_GRO): they are taken one by one");
    }
    works
}

/// Sends datagrams to this host itself, and gives what arrived.
///
/// # Errors
/// There is no loopback, or no socket.
pub(crate) fn over_loopback(contents: &[u8], segment: bool, coalesce: bool) -> io::Result<Vec<Vec<u8>>> {
    let local = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
    let bind = || Datagrams::bind(local, Bytes::new(1 << 18), segment, coalesce).map_err(io::Error::other);
    let (from, to) = (bind()?, bind()?);
    from.send(to.socket().local_addr()?, contents, EACH, 0)?;
    let (mut room, mut got) = (vec![0; DATAGRAMS_ROOM], Vec::new());
    while got.len() < DATAGRAMS {
        match to.receive(&mut room)? {
            Some(r) => got.extend(room[..r.length].chunks(r.each).map(<[u8]>::to_vec)),
            None if kernel::wait(to.socket(), false, PATIENCE).is_ok_and(|w| w.readable) => {}
            None => break,
        }
    }
    Ok(got)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_kernel_does_wrong_is_turned_off_and_nothing_else() {
        let right = |contents: &[u8]| contents.chunks(EACH).map(<[u8]>::to_vec).collect::<Vec<_>>();
        let asked = Offload::default();
        assert_eq!(working(asked, |c, _, _| Ok(right(c))), asked);
        assert_eq!(working(asked, |_, _, _| Err(io::ErrorKind::NetworkUnreachable.into())), asked, "not tried");
        // Segments that are too long by a byte; the last one lost when put together.
        let cuts = |c: &[u8], segment, _| {
            Ok(if segment { c.chunks(EACH + 1).map(<[u8]>::to_vec).collect() } else { right(c) })
        };
        assert_eq!(working(asked, cuts), Offload { udp_gso: false, ..asked });
        let loses = |c: &[u8], _, coalesce| Ok(right(&c[..c.len() - if coalesce { LAST } else { 0 }]));
        assert_eq!(working(asked, loses), Offload { udp_gro: false, ..asked });
        let off = Offload { udp_gso: false, udp_gro: false, ..asked };
        assert_eq!(working(off, |_, _, _| Ok(Vec::new())), off, "what is off is not tried");
    }

    #[test]
    fn this_kernel_does_it_right() {
        for (segment, coalesce) in [(true, true), (true, false), (false, true)] {
            let contents = vec![7; (DATAGRAMS - 1) * EACH + LAST];
            let got = over_loopback(&contents, segment, coalesce).unwrap();
            assert_eq!((got.len(), got.concat()), (DATAGRAMS, contents), "{segment} {coalesce}");
        }
    }
}
