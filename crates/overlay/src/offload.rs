//! Whether this kernel takes and gives many datagrams at once without harming them: tried at the start, and turned off where it does not.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kernel::{DATAGRAMS_ROOM, Datagrams};
use units::Bytes;

use crate::settings::Offload;

/// Datagrams of a trial, all of [`EACH`] bytes but the last.
const DATAGRAMS: usize = 20;
const EACH: usize = 1400;
/// Bytes of the last, one trial each: kernels have failed with a short one, and with none that is short (Linux 7.0 to 7.1.4).
const LASTS: [usize; 2] = [333, EACH];
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

/// What is asked for and works; `warn` is told what does not. `exchange` sends these bytes, cut into datagrams of `EACH`, with and without each of the
/// two switches, and gives what arrived; an error says that nothing can be tried here.
pub(crate) fn working(
    asked: Offload,
    exchange: impl Fn(&[u8], bool, bool) -> io::Result<Vec<Vec<u8>>>,
    mut warn: impl FnMut(&str),
) -> Offload {
    let is_wrong = |segment, coalesce| {
        LASTS.iter().any(|last| {
            let contents = contents(*last);
            let sent = contents.chunks(EACH);
            exchange(&contents, segment, coalesce).is_ok_and(|got| !got.iter().map(Vec::as_slice).eq(sent))
        })
    };
    let mut works = asked;
    if asked.udp_gso && is_wrong(true, false) {
        works.udp_gso = false;
        warn("udp_gso is off: this kernel does not cut many datagrams right (UDP_SEGMENT); they are sent one by one");
    }
    if asked.udp_gro && is_wrong(works.udp_gso, true) {
        works.udp_gro = false;
        warn("udp_gro is off: this kernel does not put datagrams together right (UDP_GRO); they are taken one by one");
    }
    works
}

/// What a trial sends, the last datagram of so many bytes.
fn contents(last: usize) -> Vec<u8> {
    (0..(DATAGRAMS - 1) * EACH + last).map(|i| (i / EACH * 31 + i % 251) as u8).collect()
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

    fn right(contents: &[u8]) -> Vec<Vec<u8>> {
        contents.chunks(EACH).map(<[u8]>::to_vec).collect()
    }

    /// What is on and what is said where the kernel does this.
    fn tried(asked: Offload, kernel: impl Fn(&[u8], bool, bool) -> Vec<Vec<u8>>) -> (Offload, Vec<String>) {
        let mut said = Vec::new();
        let works =
            working(asked, |c, segment, coalesce| Ok(kernel(c, segment, coalesce)), |s| said.push(s.to_owned()));
        (works, said)
    }

    #[test]
    fn what_a_kernel_does_wrong_is_turned_off_and_nothing_else() {
        let asked = Offload::default();
        assert_eq!(tried(asked, |c, _, _| right(c)), (asked, Vec::new()));
        let untried = |_: &[u8], _, _| Err(io::ErrorKind::NetworkUnreachable.into());
        assert_eq!(working(asked, untried, |said| panic!("{said}")), asked, "not tried");
        // Segments that are too long by a byte; headers of each but the first overwritten, where all segments have one length.
        let too_long = |c: &[u8], segment, _| {
            if segment { c.chunks(EACH + 1).map(<[u8]>::to_vec).collect() } else { right(c) }
        };
        let mangles = |c: &[u8], segment, _| {
            let mut got = right(c);
            if segment && c.len().is_multiple_of(EACH) {
                got[1..].iter_mut().for_each(|datagram| datagram[..8].fill(0));
            }
            got
        };
        for (works, said) in [tried(asked, too_long), tried(asked, mangles)] {
            assert_eq!(works, Offload { udp_gso: false, ..asked });
            assert!(said.len() == 1 && said[0].starts_with("udp_gso is off: "), "{said:?}");
        }
        // The first one lost when put together; the same where the last is as long as all others.
        let loses = |c: &[u8], _, coalesce| right(c).split_off(usize::from(coalesce));
        let loses_equal =
            |c: &[u8], _, coalesce| right(c).split_off(usize::from(coalesce && c.len().is_multiple_of(EACH)));
        for (works, said) in [tried(asked, loses), tried(asked, loses_equal)] {
            assert_eq!(works, Offload { udp_gro: false, ..asked });
            assert!(said.len() == 1 && said[0].starts_with("udp_gro is off: "), "{said:?}");
        }
        let off = Offload { udp_gso: false, udp_gro: false, ..asked };
        assert_eq!(tried(off, |_, _, _| Vec::new()), (off, Vec::new()), "what is off is not tried");
    }

    #[test]
    fn this_kernel_does_it_right() {
        for (segment, coalesce) in [(true, true), (true, false), (false, true)] {
            for contents in LASTS.map(contents) {
                let got = over_loopback(&contents, segment, coalesce).unwrap();
                assert!(got == right(&contents), "{segment} {coalesce} {}", contents.len());
            }
        }
    }
}
