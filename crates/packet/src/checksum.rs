//! The Internet checksum (RFC 1071).

/// One's complement sum of 16-bit words, folded and added to `start`. An odd last byte is padded with zero.
pub(crate) fn sum(bytes: &[u8], start: u32) -> u32 {
    let mut total = u64::from(start);
    let mut words = bytes.chunks_exact(2);
    for word in &mut words {
        total += u64::from(u16::from_be_bytes([word[0], word[1]]));
    }
    if let [last] = words.remainder() {
        total += u64::from(u16::from_be_bytes([*last, 0]));
    }
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    total as u32
}

/// Sum of the pseudo-header (RFC 9293 §3.1, RFC 8200 §8.1) of an IP packet with a transport part of `length` bytes.
pub(crate) fn pseudo_header(ip: &[u8], protocol: u8, length: usize) -> u32 {
    let addresses = match ip.first().map(|b| b >> 4) {
        Some(4) => ip.get(12..20),
        Some(6) => ip.get(8..40),
        _ => None,
    };
    let length = u32::try_from(length).unwrap_or(u32::MAX);
    let rest = sum(&[0, 0, 0, protocol], sum(&length.to_be_bytes(), 0));
    sum(addresses.unwrap_or_default(), rest)
}
