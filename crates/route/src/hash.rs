//! Numbers that look drawn and are functions of what they are for.

/// SipHash-2-4 (Aumasson and Bernstein, "SipHash: a fast short-input PRF", INDOCRYPT 2012, §2).
pub(crate) fn sip_hash(secret: [u64; 2], bytes: &[u8]) -> u64 {
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

/// An even number above 0 and below 1: the middles of 2^53 steps.
pub(crate) fn share(secret: [u64; 2], bytes: &[u8]) -> f64 {
    ((sip_hash(secret, bytes) >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sip_hash_is_that_of_its_authors() {
        // Aumasson and Bernstein 2012, appendix A: key 00..0f, input 00..0e.
        let secret = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        let input: Vec<u8> = (0..15).collect();
        assert_eq!(sip_hash(secret, &input), 0xa129_ca61_49be_45e5);
        // Of nothing: the first of the vectors in their reference code.
        assert_eq!(sip_hash(secret, &[]), 0x726f_db47_dd0e_0e31);
    }

    #[test]
    fn shares_are_even() {
        let mean = (0..10_000_u32).map(|i| share([1, 2], &i.to_le_bytes())).sum::<f64>() / 1e4;
        // Four standard deviations of 1 / sqrt(12 x 10,000).
        assert!((mean - 0.5).abs() < 0.0116, "{mean}");
    }
}
