//! Which segments pass a path in both directions, when the full-size ones of a test did not.
//!
//! A router or firewall that drops large packets and sends no ICMP makes a path MTU black hole (RFC 2923, RFC 8899): connections open,
//! and nothing moves. The search opens connections of a smaller maximum segment size and has the server repeat a hello that
//! fills two segments.

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

/// Segments of the control connection, in bytes without IP and TCP headers: what every path must carry (RFC 9293 §3.7.1, RFC 8200
/// §5). The session and its diagnosis survive a path that drops larger packets.
const SMALL_V4: u32 = 536;
const SMALL_V6: u32 = 1220;

/// IP and TCP headers without options.
const HEADERS_V4: u32 = 40;
const HEADERS_V6: u32 = 60;

/// Largest segment that is tried: the hello has to fill it, and no network but the loopback device has larger ones.
const LARGEST: u32 = 12_000;

/// How long a hello and its answer may take beside some round trips: three repetitions of a segment that a lossy path drops, after
/// 0.2, 0.4 and 0.8 s.
const PATIENCE: Duration = Duration::from_millis(1500);

/// Sizes that are tried at once. Eight need four rounds for any Ethernet MTU.
const AT_ONCE: u32 = 8;

/// Options of a connection that carries messages and no load.
pub(crate) fn control_options(target: SocketAddr) -> DataOptions {
    DataOptions { mss: Some(small(target)), ..DataOptions::default() }
}

fn small(target: SocketAddr) -> u32 {
    if address::plain(target).is_ipv4() { SMALL_V4 } else { SMALL_V6 }
}

fn headers(target: SocketAddr) -> u32 {
    if address::plain(target).is_ipv4() { HEADERS_V4 } else { HEADERS_V6 }
}

/// Searches where the test gives reason to: the directions in which full-size segments did not get through although the control
/// connection worked, and what does. It takes some seconds.
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

/// Nothing arrived of what was sent and sent again; or a sender has found smaller segments by itself (net.ipv4.tcp_mtu_probing), as
/// no router told it to.
fn is_suspect(start: &StartRecord, sender: &EndSide, receiver: &EndSide) -> bool {
    let repeated = sender.streams.iter().any(|s| s.retransmits > 0);
    let silent = receiver.totals.bytes == 0 && sender.totals.bytes > 0 && repeated;
    let shrunk = sender.streams.iter().any(|s| {
        let begun = start.streams.iter().find(|b| b.stream == s.stream);
        let before = begun.and_then(|b| b.mss_bytes.zip(b.pmtu_bytes));
        before.zip(s.tcp.as_ref()).is_some_and(|((mss, pmtu), t)| t.mss_bytes < mss && t.pmtu_bytes >= pmtu)
    });
    silent || shrunk
}

/// The verdict in words.
pub(super) fn warning(found: PathMtu) -> String {
    let PathMtu { lost_bytes, passing_bytes, passing_mss_bytes } = found;
    format!(
        "the path drops large packets and does not say so: packets of {lost_bytes} B do not get through, {passing_bytes} B do; set \
         the segment size to {passing_mss_bytes} (-M {passing_mss_bytes}), or the MTU to {passing_bytes}"
    )
}

/// The largest segment that passes to the server and back. `None` where full-size ones pass, so that something else stopped the test, where not
/// even the smallest do, and where the server repeats nothing.
fn search(options: &ClientOptions, target: SocketAddr, start: &StartRecord, rtt: Duration) -> Option<PathMtu> {
    let pmtu = start.streams.iter().filter_map(|s| s.pmtu_bytes).max()?;
    let pmtu = u32::try_from(pmtu).unwrap_or(u32::MAX).min(LARGEST + headers(target));
    let full = start.plan.mss_bytes.unwrap_or(LARGEST).min(pmtu.saturating_sub(headers(target)));
    let passes = |mss: u32| repeats(options, target, mss, PATIENCE + rtt * 8).is_ok_and(|whole| whole);
    let passing = largest(small(target), full, |sizes| {
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

/// The largest size from `min` up to but not including `max` that passes. `None` where `min` does not or `max` does.
fn largest(min: u32, max: u32, mut try_all: impl FnMut(&[u32]) -> Vec<bool>) -> Option<u32> {
    if min >= max || try_all(&[min, max]) != [true, false] {
        return None;
    }
    let (mut passes, mut fails) = (min, max);
    while fails - passes > 1 {
        let (gap, tries) = (fails - passes, AT_ONCE.min(fails - passes - 1));
        let sizes: Vec<u32> =
            (1..=tries).map(|i| passes + (u64::from(gap) * u64::from(i) / u64::from(tries + 1)) as u32).collect();
        let outcome = try_all(&sizes);
        // The first that fails ends what passes: a larger one that got through was lucky or took another path.
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

/// Whether the server repeats a hello of two segments of `mss` bytes.
fn repeats(options: &ClientOptions, target: SocketAddr, mss: u32, patience: Duration) -> Result<bool, MeasureError> {
    let peer = target.to_string();
    let stream = greet(options, target, &DataOptions { mss: Some(mss), ..DataOptions::default() })?;
    let half = stream.try_clone().map_err(|e| kernel::KernelError::new(kernel::Op::Socket, &peer, e))?;
    let writer = ControlWriter::new(half, &peer);
    let mut reader = ControlReader::new(stream, &writer, &[]);
    let fill = "-".repeat((2 * mss as usize).min(wire::HELLO_FILL_MAX));
    writer.send_raw(HELLO)?;
    let software = format!("longhaul {VERSION}");
    writer.send(&Message::Hello {
        version: wire::NATIVE_VERSION,
        software,
        nonce: random::bytes()?,
        fill: fill.clone(),
    })?;
    let answer = reader.message(kernel::now() + patience, "while the path MTU was searched");
    writer.shutdown();
    Ok(matches!(answer?, Message::Challenge { fill: repeated, .. } if repeated == fill))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_search_finds_any_limit_to_the_byte_in_a_few_rounds() {
        for limit in 536..1460 {
            let mut rounds = 0;
            let found = largest(536, 1460, |sizes| {
                rounds += 1;
                assert!(sizes.len() <= AT_ONCE as usize && sizes.is_sorted());
                sizes.iter().map(|s| *s <= limit).collect()
            });
            assert_eq!(found, Some(limit));
            assert!(rounds <= 6, "{rounds}");
        }
    }

    #[test]
    fn a_path_without_a_black_hole_has_no_limit() {
        assert_eq!(largest(536, 1460, |sizes| vec![true; sizes.len()]), None);
        assert_eq!(largest(536, 1460, |sizes| vec![false; sizes.len()]), None);
        assert_eq!(largest(536, 500, |_| panic!("nothing to try")), None);
    }
}
