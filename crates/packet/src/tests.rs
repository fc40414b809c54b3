//! Packets for the tests of several modules.

mod cut;
mod fields;
mod fragment;
mod merge;
mod partial;
mod too_big;

pub(crate) const SOURCE: [u8; 4] = [10, 0, 0, 1];
pub(crate) const TARGET: [u8; 4] = [10, 0, 0, 2];

/// An IPv4 header for a payload of `length` bytes.
pub(crate) fn ipv4(protocol: u8, id: u16, length: usize) -> Vec<u8> {
    let mut ip = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, protocol, 0, 0];
    ip[2..4].copy_from_slice(&((20 + length) as u16).to_be_bytes());
    ip[4..6].copy_from_slice(&id.to_be_bytes());
    ip.extend([SOURCE, TARGET].concat());
    ip
}

/// An IPv6 header for a payload of `length` bytes.
pub(crate) fn ipv6(next: u8, length: usize) -> Vec<u8> {
    let mut ip = vec![0x60, 0, 0, 0, 0, 0, next, 64];
    ip[4..6].copy_from_slice(&(length as u16).to_be_bytes());
    ip.extend([[0; 15].as_slice(), &[1], [0; 15].as_slice(), &[2]].concat());
    ip
}

/// A TCP header of 32 bytes with CWR, PSH, ACK and FIN set.
pub(crate) fn tcp(sequence: u32) -> Vec<u8> {
    let mut tcp = vec![0x13, 0x8b, 0x9c, 0x40];
    tcp.extend(sequence.to_be_bytes());
    tcp.extend([0, 0, 0, 9, 0x80, 0x99, 0xff, 0xff, 0, 0, 0, 0]);
    tcp.extend([1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
    tcp
}

/// Test payload with varied bytes.
pub(crate) fn payload(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i * 7 % 251) as u8).collect()
}
