//! Self-test of the kernel's offloads (UDP GSO and GRO, TUN super-packets) at the start. Faulty offloads are turned
//! off.

use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kernel::{DATAGRAMS_ROOM, Datagrams};
use packet::{Merge, Parts};
use units::Bytes;

use crate::inbound::{EINVAL, PacketSink};
use crate::settings::Offload;

/// Number of datagrams per test, all of [`DATAGRAM_BYTES`] but the last.
const DATAGRAMS: usize = 20;
const DATAGRAM_BYTES: usize = 1400;
/// Length of the last datagram in each test, bytes. Kernels have failed with a short one, and with equal lengths (Linux
/// 7.0 to 7.1.4).
const LAST_DATAGRAM_BYTES: [usize; 2] = [333, DATAGRAM_BYTES];
/// Longest wait for a datagram over loopback.
const RECEIVE_TIMEOUT: Duration = Duration::from_millis(200);

/// State of the four offload switches at run time. An offload that the kernel rejects later is off from then on.
#[derive(Default, Clone)]
pub(crate) struct OffloadSwitches {
    at_start: Offload,
    sockets: Vec<Arc<Datagrams>>,
    /// The device rejects super-packets.
    pub(crate) device_rejects_super: Arc<AtomicBool>,
}

impl OffloadSwitches {
    pub(crate) fn new(at_start: Offload, sockets: Vec<Arc<Datagrams>>) -> Self {
        Self { at_start, sockets, device_rejects_super: Arc::default() }
    }

    /// The offloads that are on.
    pub(crate) fn current(&self) -> Offload {
        Offload {
            udp_gso: self.at_start.udp_gso && self.sockets.iter().all(|s| s.segments()),
            tun_gro: self.at_start.tun_gro && !self.device_rejects_super.load(Ordering::Relaxed),
            ..self.at_start
        }
    }
}

/// The requested offloads that work on this kernel; `warn` receives a message for each of the others.
/// `exchange(contents, segment, coalesce)` sends the contents as datagrams of [`DATAGRAM_BYTES`] with UDP GSO and GRO
/// as given, and returns the received datagrams; an error skips the test.
pub(crate) fn self_test(
    requested: Offload,
    exchange: impl Fn(&[u8], bool, bool) -> io::Result<Vec<Vec<u8>>>,
    mut warn: impl FnMut(&str),
) -> Offload {
    let is_faulty = |segment, coalesce| {
        LAST_DATAGRAM_BYTES.iter().any(|last| {
            let contents = contents(*last);
            let sent = contents.chunks(DATAGRAM_BYTES);
            exchange(&contents, segment, coalesce).is_ok_and(|received| !received.iter().map(Vec::as_slice).eq(sent))
        })
    };
    let mut working = requested;
    if requested.udp_gso && is_faulty(true, false) {
        working.udp_gso = false;
        warn("udp_gso is off: this kernel corrupts segmented datagrams (UDP_SEGMENT); datagrams are sent one by one");
    }
    if requested.udp_gro && is_faulty(working.udp_gso, true) {
        working.udp_gro = false;
        warn("udp_gro is off: this kernel corrupts coalesced datagrams (UDP_GRO); datagrams are received one by one");
    }
    working
}

/// Contents of a test with `last` bytes in the last datagram.
fn contents(last: usize) -> Vec<u8> {
    (0..(DATAGRAMS - 1) * DATAGRAM_BYTES + last).map(|i| (i / DATAGRAM_BYTES * 31 + i % 251) as u8).collect()
}

/// Sends datagrams over loopback and returns the received ones.
///
/// # Errors
/// No socket can be bound to the loopback address, or a send or receive call fails.
pub(crate) fn over_loopback(contents: &[u8], segment: bool, coalesce: bool) -> io::Result<Vec<Vec<u8>>> {
    let local = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
    let bind = || Datagrams::bind(local, Bytes::new(1 << 18), segment, coalesce).map_err(io::Error::other);
    let (from, to) = (bind()?, bind()?);
    from.send(to.socket().local_addr()?, contents, DATAGRAM_BYTES, 0)?;
    let (mut room, mut received) = (vec![0; DATAGRAMS_ROOM], Vec::new());
    while received.len() < DATAGRAMS {
        match to.receive(&mut room)? {
            Some(r) => received.extend(room[..r.length].chunks(r.each).map(<[u8]>::to_vec)),
            None if kernel::wait(to.socket(), false, RECEIVE_TIMEOUT).is_ok_and(|w| w.readable) => {}
            None => break,
        }
    }
    Ok(received)
}

/// Payload of each TCP segment of a test but the last, bytes.
const SEGMENT_BYTES: usize = 1000;
/// Payload of the last segment of each test, bytes. With headers of 40 bytes, Linux 6.6.44 and similar kernels reject
/// the first two: packets 1 to 40 bytes longer than a multiple of the segment size (kernel commit e269d79c7d35).
const LAST_SEGMENT_BYTES: [usize; 3] = [SEGMENT_BYTES, SEGMENT_BYTES - 39, 1];

/// Whether a device accepts super-packets. The device must be down: it then validates each packet before it rejects it
/// with `EIO` (since Linux 5.1), so nothing enters the host's network; the device counts three dropped packets.
pub(crate) fn accepts_super_packets(device: &impl PacketSink) -> bool {
    LAST_SEGMENT_BYTES.into_iter().all(|last| {
        let (first, second) = (segment(0, SEGMENT_BYTES), segment(SEGMENT_BYTES as u16, last));
        let mut merge = Merge::new(&first, true);
        let mut parts: Parts<'_> = std::array::from_fn(|_| IoSlice::new(&[]));
        let is_malformed = |e: io::Error| e.raw_os_error() == Some(EINVAL);
        !merge.add(&second, true) || !device.send_packet(merge.parts(&mut parts)).is_err_and(is_malformed)
    })
}

/// A TCP segment between documentation addresses (TEST-NET-1, RFC 5737).
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

    fn intact(contents: &[u8]) -> Vec<Vec<u8>> {
        contents.chunks(DATAGRAM_BYTES).map(<[u8]>::to_vec).collect()
    }

    /// Runs the self-test on a simulated kernel; returns the working offloads and the warnings.
    fn test_kernel(requested: Offload, kernel: impl Fn(&[u8], bool, bool) -> Vec<Vec<u8>>) -> (Offload, Vec<String>) {
        let mut warnings = Vec::new();
        let exchange = |contents: &[u8], segment, coalesce| Ok(kernel(contents, segment, coalesce));
        let working = self_test(requested, exchange, |warning| warnings.push(warning.to_owned()));
        (working, warnings)
    }

    #[test]
    fn only_faulty_offloads_are_turned_off() {
        let all = Offload::default();
        assert_eq!(test_kernel(all, |c, _, _| intact(c)), (all, Vec::new()));
        let no_network = |_: &[u8], _, _| Err(io::ErrorKind::NetworkUnreachable.into());
        assert_eq!(self_test(all, no_network, |warning| panic!("{warning}")), all, "not tested");
        // Segments too long by one byte; or overwritten headers in all segments but the first, where all have one
        // length.
        let too_long = |c: &[u8], segment, _| {
            if segment { c.chunks(DATAGRAM_BYTES + 1).map(<[u8]>::to_vec).collect() } else { intact(c) }
        };
        let overwrites = |c: &[u8], segment, _| {
            let mut received = intact(c);
            if segment && c.len().is_multiple_of(DATAGRAM_BYTES) {
                received[1..].iter_mut().for_each(|datagram| datagram[..8].fill(0));
            }
            received
        };
        for (working, warnings) in [test_kernel(all, too_long), test_kernel(all, overwrites)] {
            assert_eq!(working, Offload { udp_gso: false, ..all });
            assert!(warnings.len() == 1 && warnings[0].starts_with("udp_gso is off: "), "{warnings:?}");
        }
        // Coalescing loses the first datagram, always or only where all have one length.
        let loses = |c: &[u8], _, coalesce| intact(c).split_off(usize::from(coalesce));
        let loses_equal = |c: &[u8], _, coalesce| {
            intact(c).split_off(usize::from(coalesce && c.len().is_multiple_of(DATAGRAM_BYTES)))
        };
        for (working, warnings) in [test_kernel(all, loses), test_kernel(all, loses_equal)] {
            assert_eq!(working, Offload { udp_gro: false, ..all });
            assert!(warnings.len() == 1 && warnings[0].starts_with("udp_gro is off: "), "{warnings:?}");
        }
        let off = Offload { udp_gso: false, udp_gro: false, ..all };
        assert_eq!(test_kernel(off, |_, _, _| Vec::new()), (off, Vec::new()), "disabled offloads are not tested");
    }

    #[test]
    fn the_offloads_of_this_kernel_work() {
        for (segment, coalesce) in [(true, true), (true, false), (false, true)] {
            for contents in LAST_DATAGRAM_BYTES.map(contents) {
                let received = over_loopback(&contents, segment, coalesce).unwrap();
                assert!(received == intact(&contents), "{segment} {coalesce} {}", contents.len());
            }
        }
    }

    /// A device that is down, on a kernel that accepts super-packets by packet length and segment size.
    struct DownDevice<F>(F);

    impl<F: Fn(usize, usize) -> bool> PacketSink for DownDevice<F> {
        fn send_packet(&self, parts: &[IoSlice<'_>]) -> io::Result<()> {
            let all = parts.iter().map(|p| &**p).collect::<Vec<_>>().concat();
            let (vnet, ip) = all.split_at(packet::VNET_HEADER);
            assert_eq!(usize::from(u16::from_be_bytes([ip[2], ip[3]])), ip.len(), "complete");
            let is_valid = (self.0)(ip.len(), usize::from(u16::from_ne_bytes([vnet[4], vnet[5]])));
            Err(io::Error::from_raw_os_error(if is_valid { 5 } else { EINVAL }))
        }
    }

    #[test]
    fn a_kernel_that_rejects_super_packets_is_detected_while_the_device_is_down() {
        assert!(accepts_super_packets(&DownDevice(|_, _| true)));
        assert!(!accepts_super_packets(&DownDevice(|_, _| false)));
        // Linux 6.6.44.
        assert!(!accepts_super_packets(&DownDevice(|length, each| length % each > 40 || length % each == 0)));
        // Rejects only a last segment of one byte.
        assert!(!accepts_super_packets(&DownDevice(|length, _| length != 40 + SEGMENT_BYTES + 1)));
    }

    #[test]
    fn the_super_packet_test_delivers_nothing_and_this_kernel_passes_it() {
        let Some(host) = or_skip(Namespace::new()) else { return };
        let tun = host.run(|| Tun::new("lh0", TunKind::Tun, true)).unwrap().unwrap();
        assert!(accepts_super_packets(&tun));
        let shown = host.iproute("ip -s link show lh0").unwrap();
        let received = shown.lines().skip_while(|l| !l.contains("RX:")).nth(1).unwrap();
        let columns: Vec<&str> = received.split_whitespace().collect();
        assert_eq!(columns[..4], ["0", "0", "0", "3"], "{shown}");
        // The kernel reports a malformed packet as such although the device is down: here segments of zero bytes.
        let parts = segment(0, SEGMENT_BYTES);
        let mut merge = Merge::new(&parts, true);
        let mut room: Parts<'_> = std::array::from_fn(|_| IoSlice::new(&[]));
        let mut whole = merge.parts(&mut room).iter().map(|p| p.to_vec()).collect::<Vec<_>>().concat();
        let error = |whole: &[u8]| tun.send_packet(&[IoSlice::new(whole)]).unwrap_err().raw_os_error();
        assert_eq!(error(&whole), Some(5));
        whole[1] = 1;
        assert_eq!(error(&whole), Some(EINVAL));
    }
}
