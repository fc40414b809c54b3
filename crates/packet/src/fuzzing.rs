//! Body of the fuzz target `packets`: see the crate `fuzzing`, which replays the committed corpus through it.
//!
//! It takes any bytes and panics where a promise of this crate is broken; that is its purpose.

use crate::checksum;
use crate::{
    Cut, Ecn, Flow, Fragments, Merge, Packet, VNET_HEADER, clamp_mss, complete_checksum, destination, ecn,
    mark_congestion, source, too_big,
};

/// What a device, or a member of an overlay, may hand over: two bytes for what the way carries, a virtio header, and an IP packet.
pub fn packets(data: &[u8]) {
    let Some((most, raw)) = data.split_first_chunk::<2>() else { return };
    let most = usize::from(u16::from_be_bytes(*most));
    let Some((vnet, ip)) = raw.split_at_checked(VNET_HEADER) else { return };
    fields(vnet, ip, most);
    for ethernet in [false, true] {
        if let Some(packet) = Packet::new(raw, raw.len(), ethernet) {
            cuts(&packet);
        }
    }
    if let Some(mut packet) = Packet::new(raw, raw.len(), false)
        && packet.cut_to(most)
    {
        assert!(packet.segments().longest() as usize <= most);
        cuts(&packet);
    }
}

/// What is read of a packet, and mended in it.
fn fields(vnet: &[u8], ip: &[u8], most: usize) {
    if let Some(flow) = Flow::of(ip) {
        assert_eq!((Some(flow.source), Some(flow.destination)), (source(ip), destination(ip)));
    }
    let mut marked = ip.to_vec();
    if mark_congestion(&mut marked) {
        assert_eq!(ecn(&marked), Some(Ecn::Congestion));
    }
    for partial in [false, true] {
        let mut clamped = ip.to_vec();
        clamp_mss(&mut clamped, most, partial);
        assert!(!clamp_mss(&mut clamped, most, partial), "once is enough");
        assert_eq!(Flow::of(&clamped), Flow::of(ip));
    }
    fragments(ip, most);
    let (start, field) = (usize::from(vnet[6]), usize::from(vnet[8]));
    complete_checksum(&mut ip.to_vec(), start, field);
    if let Some(answer) = too_big(ip, most) {
        assert_eq!((source(&answer), destination(&answer)), (destination(ip), source(ip)));
        assert!(answer.len() <= 1280);
    }
}

/// Fragments fit, and have all of the packet, each where it was.
fn fragments(ip: &[u8], most: usize) {
    let Some(fragments) = Fragments::new(ip, most) else { return };
    let mut at = None;
    for fragment in fragments {
        let [header, payload] = fragment.parts();
        assert!(header.len() + payload.len() <= most && checksum::sum(header, 0) == 0xffff);
        let offset = usize::from(u16::from_be_bytes([header[6], header[7]]) & 0x1fff) * 8;
        let (begin, end) = at.unwrap_or((offset, header.len()));
        assert_eq!(offset - begin, end - header.len());
        assert_eq!(payload, &ip[end..end + payload.len()]);
        at = Some((begin, end + payload.len()));
    }
    let length = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
    assert!(at.is_none_or(|(_, end)| end == length));
}

/// Segments are what was told of them, have all that the packet has, and make the same packet again.
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
    assert_eq!(headers, packet.headers * all.len(), "all of its payload, once");
    for (n, segment) in all.iter().enumerate() {
        let told = if n + 1 == all.len() { segments.last } else { segments.full };
        assert_eq!(segment.len() - packet.ip_at, told as usize);
    }
    if packet.ip_at == 0 {
        merges(packet, &all);
    }
}

/// Whatever is put together has the payload of its parts, and all segments of a packet that can be have that of the packet.
fn merges(packet: &Packet<&[u8]>, all: &[Vec<u8>]) {
    let Some((first, rest)) = all.split_first() else { return };
    let mut merge = Merge::new(first, true);
    let added = rest.iter().take_while(|segment| merge.add(segment, true)).count();
    let (count, bytes) = (merge.count(), merge.ip_bytes());
    let mut room = std::array::from_fn(|_| std::io::IoSlice::new(&[]));
    let written = merge.parts(&mut room).iter().flat_map(|part| part.iter().copied()).collect::<Vec<u8>>();
    assert_eq!((count, written.len()), (1 + added, VNET_HEADER + bytes));
    if added > 0 {
        // Where segments are put together, their headers are as long as those that were cut.
        let payload = &packet.frame()[packet.headers..];
        assert!(payload.starts_with(&written[VNET_HEADER + packet.headers..]));
    }
}
