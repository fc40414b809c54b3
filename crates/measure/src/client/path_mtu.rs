//! Search for the largest segment that passes a path in both directions, after the full-size segments of a test did
//! not.
//!
//! A router or firewall that drops large packets without ICMP makes a path MTU black hole (RFC 2923, RFC 8899):
//! connections open, but transfer no data. The search opens connections of smaller maximum segment sizes. On each, the
//! server echoes a hello that fills two segments.

use std::net::SocketAddr;
use std::time::Duration;

use kernel::DataOptions;
use results::{Direction, PathMtu, Role, StartRecord, Transport};
use wire::{EndSide, HELLO, Message};

use super::ClientOptions;
use super::connect::greet;
use super::gathered::Gathered;
use crate::control::{ControlReader, ControlWriter};
use crate::{MeasureError, VERSION, address, random};

/// Segment size of the control connection in bytes without IP and TCP headers: the size that every path must carry (RFC
/// 9293 §3.7.1, RFC 8200 §5). The session and this diagnosis work on a path that drops larger packets.
const SMALL_MSS_V4: u32 = 536;
const SMALL_MSS_V6: u32 = 1220;

/// Bytes of the IP and TCP headers without options.
const HEADER_BYTES_V4: u32 = 40;
const HEADER_BYTES_V6: u32 = 60;

/// Maximum segment size of the search in bytes: the hello has to fill it, and only the loopback device has larger ones.
const SEARCHED_MSS_MAX: u32 = 12_000;

/// Time limit of a hello and its answer in addition to round trips: three retransmissions of a segment on a lossy path,
/// after 0.2, 0.4 and 0.8 s.
const ECHO_TIMEOUT: Duration = Duration::from_millis(1500);

/// Number of sizes tried in parallel. Eight sizes need four rounds for any Ethernet MTU.
const PARALLEL_SIZES_MAX: u32 = 8;

/// Options of a connection that carries only messages.
pub(crate) fn control_options(target: SocketAddr) -> DataOptions {
    DataOptions { mss: Some(small(target)), ..DataOptions::default() }
}

fn small(target: SocketAddr) -> u32 {
    if address::plain(target).is_ipv4() { SMALL_MSS_V4 } else { SMALL_MSS_V6 }
}

fn headers(target: SocketAddr) -> u32 {
    if address::plain(target).is_ipv4() { HEADER_BYTES_V4 } else { HEADER_BYTES_V6 }
}

/// Searches for the path MTU if the test indicates a black hole. Returns the result and the directions in which
/// full-size segments were lost while the control connection worked. The search takes some seconds.
pub(super) fn diagnose(
    options: &ClientOptions,
    target: SocketAddr,
    start: &StartRecord,
    got: &Gathered,
) -> Option<(PathMtu, Vec<Direction>)> {
    let (local, _) = got.local.as_ref()?;
    let sides = || local.iter().chain(got.remote.iter().flat_map(|r| &r.directions));
    let side = |direction, role| sides().find(|s| s.direction == direction && s.role == role);
    let there: Vec<Direction> = start
        .plan
        .directions
        .iter()
        .copied()
        .filter(|_| start.plan.transport == Transport::Tcp)
        .filter(|d| {
            let ends = side(*d, Role::Sender).zip(side(*d, Role::Receiver));
            ends.is_some_and(|(sender, receiver)| is_suspect(start, sender, receiver))
        })
        .collect();
    if there.is_empty() {
        return None;
    }
    search(options, target, start, got.before.rtt.unwrap_or_default()).map(|found| (found, there))
}

/// Whether a direction indicates a black hole: nothing arrived despite retransmissions, or the sender reduced its
/// segments by itself (net.ipv4.tcp_mtu_probing) without ICMP from a router.
fn is_suspect(start: &StartRecord, sender: &EndSide, receiver: &EndSide) -> bool {
    let repeated = sender.streams.iter().any(|s| s.retransmits > 0);
    let silent = receiver.totals.bytes == 0 && sender.totals.bytes > 0 && repeated;
    let shrunk = sender.streams.iter().any(|s| {
        let initial = start.streams.iter().find(|b| b.stream == s.stream);
        let before = initial.and_then(|b| b.mss_bytes.zip(b.pmtu_bytes));
        before.zip(s.tcp.as_ref()).is_some_and(|((mss, pmtu), t)| t.mss_bytes < mss && t.pmtu_bytes >= pmtu)
    });
    silent || shrunk
}

/// Text of the result.
pub(super) fn warning(found: PathMtu) -> String {
    let PathMtu { lost_bytes, passing_bytes, passing_mss_bytes } = found;
    format!(
        "the path drops large packets without an ICMP message: packets of {lost_bytes} B do not get through, {passing_bytes} B do; set \
         the segment size to {passing_mss_bytes} (-M {passing_mss_bytes}), or the MTU to {passing_bytes}"
    )
}

/// Searches for the largest segment that passes to the server and back. `None` if full-size segments pass, so that the
/// test failed for another reason, if not even the smallest segments pass, or if the server echoes no hello.
fn search(options: &ClientOptions, target: SocketAddr, start: &StartRecord, rtt: Duration) -> Option<PathMtu> {
    let pmtu = start.streams.iter().filter_map(|s| s.pmtu_bytes).max()?;
    let pmtu = u32::try_from(pmtu).unwrap_or(u32::MAX).min(SEARCHED_MSS_MAX + headers(target));
    let full = start.plan.mss_bytes.unwrap_or(SEARCHED_MSS_MAX).min(pmtu.saturating_sub(headers(target)));
    let passes = |mss: u32| echoes_hello(options, target, mss, ECHO_TIMEOUT + rtt * 8).is_ok_and(|whole| whole);
    let passing = find_largest(small(target), full, |sizes| {
        std::thread::scope(|scope| {
            let tried: Vec<_> = sizes.iter().map(|mss| scope.spawn(|| passes(*mss))).collect();
            tried.into_iter().map(|t| t.join().unwrap_or(false)).collect()
        })
    })?;
    Some(PathMtu {
        lost_bytes: u64::from(full + headers(target)),
        passing_bytes: u64::from(passing + headers(target)),
        passing_mss_bytes: u64::from(passing),
    })
}

/// The largest size in `min..max` that passes. `None` if `min` does not pass or `max` does.
fn find_largest(min: u32, max: u32, mut probe_all: impl FnMut(&[u32]) -> Vec<bool>) -> Option<u32> {
    if min >= max || probe_all(&[min, max]) != [true, false] {
        return None;
    }
    let (mut passes, mut fails) = (min, max);
    while fails - passes > 1 {
        let (gap, tries) = (fails - passes, PARALLEL_SIZES_MAX.min(fails - passes - 1));
        let sizes: Vec<u32> =
            (1..=tries).map(|i| passes + (u64::from(gap) * u64::from(i) / u64::from(tries + 1)) as u32).collect();
        let outcome = probe_all(&sizes);
        // The first failing size is the upper bound: a larger one that passed used another path or was not dropped by
        // chance.
        for (size, passed) in sizes.into_iter().zip(outcome) {
            if !passed {
                fails = size;
                break;
            }
            passes = size;
        }
    }
    Some(passes)
}

/// Whether the server echoes a hello of two segments of `mss` bytes.
fn echoes_hello(
    options: &ClientOptions,
    target: SocketAddr,
    mss: u32,
    timeout: Duration,
) -> Result<bool, MeasureError> {
    let peer = target.to_string();
    let stream = greet(options, target, &DataOptions { mss: Some(mss), ..DataOptions::default() })?;
    let half = stream.try_clone().map_err(|e| kernel::KernelError::new(kernel::Op::Socket, &peer, e))?;
    let writer = ControlWriter::new(half, &peer);
    let mut reader = ControlReader::new(stream, &writer, &[]);
    let fill = "-".repeat((2 * mss as usize).min(wire::HELLO_FILL_BYTES_MAX));
    writer.send_raw(HELLO)?;
    let software = format!("longhaul {VERSION}");
    writer.send(&Message::Hello {
        version: wire::NATIVE_VERSION,
        software,
        nonce: random::bytes()?,
        fill: fill.clone(),
    })?;
    let answer = reader.message(kernel::now() + timeout, "while the path MTU was searched");
    writer.shutdown();
    Ok(matches!(answer?, Message::Challenge { fill: repeated, .. } if repeated == fill))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_search_finds_any_limit_exactly_in_a_few_rounds() {
        for limit in 536..1460 {
            let mut rounds = 0;
            let found = find_largest(536, 1460, |sizes| {
                rounds += 1;
                assert!(sizes.len() <= PARALLEL_SIZES_MAX as usize && sizes.is_sorted());
                sizes.iter().map(|s| *s <= limit).collect()
            });
            assert_eq!(found, Some(limit));
            assert!(rounds <= 6, "{rounds}");
        }
    }

    #[test]
    fn a_path_without_a_black_hole_has_no_limit() {
        assert_eq!(find_largest(536, 1460, |sizes| vec![true; sizes.len()]), None);
        assert_eq!(find_largest(536, 1460, |sizes| vec![false; sizes.len()]), None);
        assert_eq!(find_largest(536, 500, |_| panic!("nothing to try")), None);
    }
}
