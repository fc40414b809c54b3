use core::net::IpAddr;

/// What packets of one flow have in common: the five fields of the paper (addresses, ports, priority), and the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowKey {
    /// Source and destination address, IPv4 ones mapped into IPv6 (RFC 4291 §2.5.5.2).
    addresses: [[u8; 16]; 2],
    /// Source and destination port; zero where the protocol has none or the packet is a fragment.
    ports: [u16; 2],
    protocol: u8,
    dscp: u8,
}

impl FlowKey {
    /// Of a packet from `source` to `destination`, each with its port.
    pub fn new(source: (IpAddr, u16), destination: (IpAddr, u16), protocol: u8, dscp: u8) -> Self {
        let octets = |address: IpAddr| match address {
            IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
            IpAddr::V6(v6) => v6.octets(),
        };
        Self { addresses: [octets(source.0), octets(destination.0)], ports: [source.1, destination.1], protocol, dscp }
    }

    /// SipHash-2-4 of the key under a secret: who sends packets cannot choose flows that fall together. A caller with a faster keyed hash may use that one.
    pub fn hash(&self, secret: [u64; 2]) -> u64 {
        let mut bytes = [0; 38];
        bytes[..16].copy_from_slice(&self.addresses[0]);
        bytes[16..32].copy_from_slice(&self.addresses[1]);
        bytes[32..34].copy_from_slice(&self.ports[0].to_be_bytes());
        bytes[34..36].copy_from_slice(&self.ports[1].to_be_bytes());
        bytes[36..].copy_from_slice(&[self.protocol, self.dscp]);
        sip_hash(secret, &bytes)
    }
}

/// SipHash-2-4 (Aumasson and Bernstein, "SipHash: a fast short-input PRF", INDOCRYPT 2012, §2).
pub(super) fn sip_hash(secret: [u64; 2], bytes: &[u8]) -> u64 {
    let mut v = [
        secret[0] ^ 0x736f_6d65_7073_6575,
        secret[1] ^ 0x646f_7261_6e64_6f6d,
        secret[0] ^ 0x6c79_6765_6e65_7261,
        secret[1] ^ 0x7465_6462_7974_6573,
    ];
    let mut absorb = |word: u64| {
        v[3] ^= word;
        round(&mut v);
        round(&mut v);
        v[0] ^= word;
    };
    let mut words = bytes.chunks_exact(8);
    for word in &mut words {
        absorb(little_endian(word));
    }
    absorb(little_endian(words.remainder()) | (bytes.len() as u64) << 56);
    v[2] ^= 0xff;
    for _ in 0..4 {
        round(&mut v);
    }
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

fn round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[2] = v[2].rotate_left(32);
}
