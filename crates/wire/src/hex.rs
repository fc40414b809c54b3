//! Byte arrays as lower-case hexadecimal text in JSON: `#[serde(with = "crate::hex")]`.

use core::fmt;

use serde::de::{Deserializer, Error, Visitor};
use serde::ser::Serializer;

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Encodes each byte as two digits.
pub(crate) fn encode(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from(DIGITS.get(usize::from(nibble)).copied().unwrap_or(b'?'));
    bytes.iter().flat_map(|b| [digit(b >> 4), digit(b & 15)]).collect()
}

/// Decodes exactly `N` bytes; `None` for any other text.
pub(crate) fn decode<const N: usize>(text: &str) -> Option<[u8; N]> {
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    if pairs.len() != N {
        return None;
    }
    let nibble = |c: u8| char::from(c).to_digit(16).map(|d| d as u8);
    let mut bytes = [0; N];
    for (byte, &[high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = nibble(high)? << 4 | nibble(low)?;
    }
    Some(bytes)
}

pub(crate) fn serialize<S: Serializer, const N: usize>(bytes: &[u8; N], s: S) -> Result<S::Ok, S::Error> {
    s.serialize_str(&encode(bytes))
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>, const N: usize>(d: D) -> Result<[u8; N], D::Error> {
    d.deserialize_str(HexVisitor::<N>)
}

struct HexVisitor<const N: usize>;

impl<const N: usize> Visitor<'_> for HexVisitor<N> {
    type Value = [u8; N];

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} hexadecimal digits", 2 * N)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        // The error does not repeat the text: it may be a secret or a megabyte long.
        decode(text).ok_or_else(|| E::custom(format_args!("not {} hexadecimal digits", 2 * N)))
    }
}

/// The encoding for `Option`; absent and `null` are `None`. Use with `#[serde(default)]`.
pub(crate) mod option {
    use serde::de::{Deserialize, Deserializer};
    use serde::ser::Serializer;

    pub(crate) fn serialize<S: Serializer, const N: usize>(bytes: &Option<[u8; N]>, s: S) -> Result<S::Ok, S::Error> {
        match bytes {
            Some(bytes) => super::serialize(bytes, s),
            None => s.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>, const N: usize>(d: D) -> Result<Option<[u8; N]>, D::Error> {
        Ok(Option::<Hex<N>>::deserialize(d)?.map(|hex| hex.0))
    }

    struct Hex<const N: usize>([u8; N]);

    impl<'de, const N: usize> Deserialize<'de> for Hex<N> {
        fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
            super::deserialize(d).map(Self)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_exact_number_of_digits_is_accepted() {
        assert_eq!(encode(&[0, 0xab, 255]), "00abff");
        assert_eq!(decode("00ABff"), Some([0, 0xab, 255]));
        for bad in ["00abf", "00abff00", "00abfg", "", "+0abff", "0xabff", "00ab\u{e4}"] {
            assert_eq!(decode::<3>(bad), None, "{bad}");
        }
    }
}
