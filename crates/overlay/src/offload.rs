//! Whether this kernel takes and gives many datagrams at once without harming them: tried at the start, and turned off where it does not.

use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kernel::{DATAGRAMS_ROOM, Datagrams};
use packet::{Merge, Parts};
use units::Bytes;

use crate::inbound::{EINVAL, Takes};
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

/// Bytes of each TCP segment of a trial but the last, and of the last. With headers of 40 bytes the first two are what Linux 6.6.44 and its like
/// refuse: packets by 1 to 40 bytes longer than a multiple of the segments' size (kernel commit e269d79c7d35).
const SEGMENT: usize = 1000;
const LAST_SEGMENTS: [usize; 3] = [SEGMENT, SEGMENT - 39, 1];

/// Whether a device takes super-packets. It must be down: then it refuses those that it would take (`EIO`, since Linux 5.1), after it has looked at
/// them, and nothing gets into the host's network but the three that the device counts as dropped.
pub(crate) fn takes_super_packets(device: &impl Takes) -> bool {
    LAST_SEGMENTS.into_iter().all(|last| {
        let (first, second) = (segment(0, SEGMENT), segment(SEGMENT as u16, last));
        let mut merge = Merge::new(&first, true);
        let mut parts: Parts<'_> = std::array::from_fn(|_| IoSlice::new(&[]));
        let is_refused = |e: io::Error| e.raw_os_error() == Some(EINVAL);
        !merge.add(&second, true) || !device.take(merge.parts(&mut parts)).is_err_and(is_refused)
    })
}

/// A TCP segment between nobody and nobody (TEST-NET-1, RFC 5737).
fn segment(sequence: u16, payload: usize) -> Vec<u8> {
    let [high, low] = sequence.to_be_bytes();
    let mut ip = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 1, 6, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2];
    ip[2..4].copy_from_slice(&((40 + payload) as u16).to_be_bytes());
    ip.extend([0, 9, 0, 9, 0, 0, high, low, 0, 0, 0, 0, 0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0]);
    ip.resize(40 + payload, 0);
    ip
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::{Tun, TunKind};
    use testbed::{Namespace, or_skip};

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

    /// A device that is down, on a kernel that looks at super-packets so, by their length and their segments'.
    struct Down<F>(F);

    impl<F: Fn(usize, usize) -> bool> Takes for Down<F> {
        fn take(&self, parts: &[IoSlice<'_>]) -> io::Result<()> {
            let all = parts.iter().map(|p| &**p).collect::<Vec<_>>().concat();
            let (vnet, ip) = all.split_at(packet::VNET_HEADER);
            assert_eq!(usize::from(u16::from_be_bytes([ip[2], ip[3]])), ip.len(), "it is whole");
            let is_right = (self.0)(ip.len(), usize::from(u16::from_ne_bytes([vnet[4], vnet[5]])));
            Err(io::Error::from_raw_os_error(if is_right { 5 } else { EINVAL }))
        }
    }

    #[test]
    fn a_kernel_that_refuses_super_packets_is_found_out_while_the_device_is_down() {
        assert!(takes_super_packets(&Down(|_, _| true)));
        assert!(!takes_super_packets(&Down(|_, _| false)));
        // Linux 6.6.44.
        assert!(!takes_super_packets(&Down(|length, each| length % each > 40 || length % each == 0)));
        assert!(!takes_super_packets(&Down(|length, _| length != 40 + SEGMENT + 1)), "a last segment of a byte alone");
    }

    #[test]
    fn a_trial_of_super_packets_sends_nothing_and_this_kernel_takes_them() {
        let Some(host) = or_skip(Namespace::new()) else { return };
        let tun = host.run(|| Tun::new("lh0", TunKind::Tun, true)).unwrap().unwrap();
        assert!(takes_super_packets(&tun));
        let shown = host.iproute("ip -s link show lh0").unwrap();
        let received = shown.lines().skip_while(|l| !l.contains("RX:")).nth(1).unwrap();
        let columns: Vec<&str> = received.split_whitespace().collect();
        assert_eq!(columns[..4], ["0", "0", "0", "3"], "{shown}");
        // What the kernel would not take is told apart although the device is down: segments of no bytes.
        let parts = segment(0, SEGMENT);
        let mut merge = Merge::new(&parts, true);
        let mut room: Parts<'_> = std::array::from_fn(|_| IoSlice::new(&[]));
        let mut whole = merge.parts(&mut room).iter().map(|p| p.to_vec()).collect::<Vec<_>>().concat();
        let refusal = |whole: &[u8]| tun.take(&[IoSlice::new(whole)]).unwrap_err().raw_os_error();
        assert_eq!(refusal(&whole), Some(5));
        whole[1] = 1;
        assert_eq!(refusal(&whole), Some(EINVAL));
    }
}
