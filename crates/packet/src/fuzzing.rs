//! Body of the fuzz target `packets`; the crate `fuzzing` replays the committed corpus through it.
//!
//! The body accepts any bytes, and panics if the crate violates a guarantee.

use crate::checksum;
use crate::{
    Cut, Ecn, Flow, Fragments, Merge, Packet, VNET_HEADER, clamp_mss, complete_checksum, destination, ecn,
    mark_congestion, source, too_big,
};

/// Input from a device or an overlay peer: two bytes for the path MTU, a virtio header, and an IP packet.
pub fn packets(data: &[u8]) {
    let Some((max, raw)) = data.split_first_chunk::<2>() else { return };
    let max = usize::from(u16::from_be_bytes(*max));
    let Some((vnet, ip)) = raw.split_at_checked(VNET_HEADER) else { return };
    fields(vnet, ip, max);
    for ethernet in [false, true] {
        if let Some(packet) = Packet::new(raw, raw.len(), ethernet) {
            cuts(&packet);
        }
    }
    if let Some(mut packet) = Packet::new(raw, raw.len(), false)
        && packet.cut_to(max)
    {
        assert!(packet.segments().longest() as usize <= max);
        cuts(&packet);
    }
}

/// Checks reading and updating of packet fields.
fn fields(vnet: &[u8], ip: &[u8], max: usize) {
    if let Some(flow) = Flow::of(ip) {
        assert_eq!((Some(flow.source), Some(flow.destination)), (source(ip), destination(ip)));
    }
    let mut marked = ip.to_vec();
    if mark_congestion(&mut marked) {
        assert_eq!(ecn(&marked), Some(Ecn::Congestion));
    }
    for partial in [false, true] {
        let mut clamped = ip.to_vec();
        clamp_mss(&mut clamped, max, partial);
        assert!(!clamp_mss(&mut clamped, max, partial), "a second call changes nothing");
        assert_eq!(Flow::of(&clamped), Flow::of(ip));
    }
    fragments(ip, max);
    let (start, field) = (usize::from(vnet[6]), usize::from(vnet[8]));
    complete_checksum(&mut ip.to_vec(), start, field);
    if let Some(answer) = too_big(ip, max) {
        assert_eq!((source(&answer), destination(&answer)), (destination(ip), source(ip)));
        assert!(answer.len() <= 1280);
    }
}

/// Checks that fragments fit and contain the whole packet at the right offsets.
fn fragments(ip: &[u8], max: usize) {
    let Some(fragments) = Fragments::new(ip, max) else { return };
    let mut at = None;
    for fragment in fragments {
        let [header, payload] = fragment.parts();
        assert!(header.len() + payload.len() <= max && checksum::sum(header, 0) == 0xffff);
        let offset = usize::from(u16::from_be_bytes([header[6], header[7]]) & 0x1fff) * 8;
        let (start, end) = at.unwrap_or((offset, header.len()));
        assert_eq!(offset - start, end - header.len());
        assert_eq!(payload, &ip[end..end + payload.len()]);
        at = Some((start, end + payload.len()));
    }
    let length = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
    assert!(at.is_none_or(|(_, end)| end == length));
}

/// Checks that segments have the announced sizes, contain the whole packet, and merge to the same packet.
fn cuts(packet: &Packet<&[u8]>) {
    let segments = packet.segments();
    let cut = (0..segments.count).map_while(|n| Cut::new(packet, n, 1));
    let all = Vec::from_iter(cut.map(|c| [c.headers(), c.payload()].concat()));
    assert!(packet.on_wire(segments.count).is_none());
    for (n, segment) in (0..).zip(&all) {
        assert_eq!(packet.on_wire(n).map(|wire| wire.len()), Some(segment.len()));
    }
    if all.len() < segments.count as usize {
        return;
    }
    let headers = all.iter().map(Vec::len).sum::<usize>() - (packet.frame().len() - packet.headers);
    assert_eq!(headers, packet.headers * all.len(), "segments contain the payload exactly once");
    for (n, segment) in all.iter().enumerate() {
        let announced = if n + 1 == all.len() { segments.last } else { segments.full };
        assert_eq!(segment.len() - packet.ip_at, announced as usize);
    }
    if packet.ip_at == 0 {
        merges(packet, &all);
    }
}

/// Checks that a merged packet has the payload of its parts, and that all segments of a packet merge to its payload.
fn merges(packet: &Packet<&[u8]>, all: &[Vec<u8>]) {
    let Some((first, rest)) = all.split_first() else { return };
    let mut merge = Merge::new(first, true);
    let added = rest.iter().take_while(|segment| merge.add(segment, true)).count();
    let (count, bytes) = (merge.count(), merge.ip_bytes());
    let mut buffers = std::array::from_fn(|_| std::io::IoSlice::new(&[]));
    let written = merge.parts(&mut buffers).iter().flat_map(|part| part.iter().copied()).collect::<Vec<u8>>();
    assert_eq!((count, written.len()), (1 + added, VNET_HEADER + bytes));
    if added > 0 {
        // Merged segments have headers of the same length as the packet that was cut.
        let payload = &packet.frame()[packet.headers..];
        assert!(payload.starts_with(&written[VNET_HEADER + packet.headers..]));
    }
}
