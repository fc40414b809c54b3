//! Decimal fields of the thrulay texts, parsed from a buffer that may still grow.

use crate::proposal::Progress;

/// An error in a text of decimal fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FieldError {
    /// A byte that is neither a digit nor the expected separator; a sign counts as such.
    #[error("found byte 0x{found:02x}; expected a decimal digit or `{expected}`")]
    Byte {
        /// The byte.
        found: u8,
        /// The separator that may end the field.
        expected: char,
    },
    /// A separator without a digit before it.
    #[error("a number is missing before the separator")]
    Empty,
    /// A number above 2^64 - 1.
    #[error("a number exceeds 64 bits")]
    Overflow,
    /// A number outside the range of its field.
    #[error("{field} = {value} is out of range")]
    Range {
        /// Name of the field.
        field: &'static str,
        /// Its value.
        value: u64,
    },
    /// The maximum length was reached without the end of the text.
    #[error("no end within {max} bytes")]
    TooLong {
        /// The maximum length in bytes.
        max: usize,
    },
}

/// Parses `N` decimal numbers, `:` between them and `last` after the final one, from the front of `input`.
///
/// Only decimal digits are accepted: C's `sscanf("%u")` of the old server also takes blanks and signs, which no
/// client sends.
pub(crate) fn decimal_fields<const N: usize>(input: &[u8], last: u8) -> Result<Progress<[u64; N]>, FieldError> {
    let mut values = [0; N];
    let mut consumed = 0;
    for (index, value) in values.iter_mut().enumerate() {
        let end = if index + 1 == N { last } else { b':' };
        match decimal(input.get(consumed..).unwrap_or_default(), end)? {
            Progress::Incomplete => return Ok(Progress::Incomplete),
            Progress::Complete { value: v, consumed: n } => {
                *value = v;
                consumed += n;
            }
        }
    }
    Ok(Progress::Complete { value: values, consumed })
}

/// Parses one decimal number and the separator `end` after it.
fn decimal(input: &[u8], end: u8) -> Result<Progress<u64>, FieldError> {
    let mut value: u64 = 0;
    for (index, &byte) in input.iter().enumerate() {
        if byte == end {
            return if index == 0 {
                Err(FieldError::Empty)
            } else {
                Ok(Progress::Complete { value, consumed: index + 1 })
            };
        }
        if !byte.is_ascii_digit() {
            return Err(FieldError::Byte { found: byte, expected: char::from(end) });
        }
        let digit = u64::from(byte - b'0');
        value = value.checked_mul(10).and_then(|v| v.checked_add(digit)).ok_or(FieldError::Overflow)?;
    }
    Ok(Progress::Incomplete)
}

/// Turns "incomplete" into an error once `length` bytes have reached the maximum `max`.
pub(crate) fn bounded<T>(progress: Progress<T>, length: usize, max: usize) -> Result<Progress<T>, FieldError> {
    match progress {
        Progress::Incomplete if length >= max => Err(FieldError::TooLong { max }),
        undecided @ Progress::Incomplete => Ok(undecided),
        complete @ Progress::Complete { .. } => Ok(complete),
    }
}

/// The part of `input` that a text of at most `max` bytes can occupy.
pub(crate) fn window(input: &[u8], max: usize) -> &[u8] {
    input.get(..max).unwrap_or(input)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_and_separators_only() {
        let two = |s: &[u8]| decimal_fields::<2>(s, b'+');
        assert_eq!(two(b"12:34+x"), Ok(Progress::Complete { value: [12, 34], consumed: 6 }));
        assert_eq!(two(b"12:3"), Ok(Progress::Incomplete));
        assert_eq!(two(b""), Ok(Progress::Incomplete));
        assert_eq!(two(b":3+"), Err(FieldError::Empty));
        assert_eq!(two(b"1:+"), Err(FieldError::Empty));
        assert_eq!(two(b"1+"), Err(FieldError::Byte { found: b'+', expected: ':' }));
        assert_eq!(two(b"-1:2+"), Err(FieldError::Byte { found: b'-', expected: ':' }));
        assert_eq!(two(b"1: 2+"), Err(FieldError::Byte { found: b' ', expected: '+' }));
        assert_eq!(two(b"18446744073709551615:0+").map(|p| p.value()), Ok(Some([u64::MAX, 0])));
        assert_eq!(two(b"18446744073709551616:0+"), Err(FieldError::Overflow));
    }
}
