/// Seconds from the NTP epoch, 1900, to the Unix epoch, 1970 (RFC 5905 §A.4: JAN_1970).
const UNIX_EPOCH_S: u64 = 2_208_988_800;

const NANOS: u64 = 1_000_000_000;

/// A time of day in NTP's 64-bit format: 32 bits of seconds since 1900, 32 bits of fraction (RFC 5905 §6).
///
/// The seconds wrap in 2036. Times with the first bit set are from 1968 to 2036, all other times from 2036 to 2104
/// (RFC 4330 §3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NtpTime(u64);

impl NtpTime {
    /// Creates a time from the 64 bits of the format.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The 64 bits of the format.
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// Converts nanoseconds since 1970 UTC; exact to 0.12 ns. Times after 2104 keep only their position in the era.
    pub const fn from_unix_nanos(ns: u64) -> Self {
        let seconds = (ns / NANOS).wrapping_add(UNIX_EPOCH_S) & 0xffff_ffff;
        // Below 2^32 also after rounding: 999 999 999 ns is 4.3 units short of a second.
        let fraction = (((ns % NANOS) << 32) + NANOS / 2) / NANOS;
        Self(seconds << 32 | fraction)
    }

    /// Converts to nanoseconds since 1970 UTC, rounded to the nearest; `None` for times before 1970.
    pub fn to_unix_nanos(self) -> Option<u64> {
        let (seconds, fraction) = (self.0 >> 32, self.0 & 0xffff_ffff);
        let era_start = if seconds >> 31 == 1 { 0 } else { 1 << 32 };
        let unix_s = (era_start + seconds).checked_sub(UNIX_EPOCH_S)?;
        Some(unix_s * NANOS + ((fraction * NANOS + (1 << 31)) >> 32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn epochs_and_the_turn_of_the_era_are_right() {
        assert_eq!(NtpTime::from_unix_nanos(0).to_bits(), UNIX_EPOCH_S << 32);
        assert_eq!(NtpTime::from_unix_nanos(NANOS / 2).to_bits(), UNIX_EPOCH_S << 32 | 1 << 31);
        // 2036-02-07 06:28:16 UTC starts era 1 (RFC 5905 figure 4).
        let turn = (1_u64 << 32).wrapping_sub(UNIX_EPOCH_S) * NANOS;
        assert_eq!(NtpTime::from_unix_nanos(turn).to_bits(), 0);
        assert_eq!(NtpTime::from_bits(0).to_unix_nanos(), Some(turn));
        assert_eq!(NtpTime::from_bits(u64::MAX).to_unix_nanos(), Some(turn));
        assert_eq!(NtpTime::from_bits(1 << 63).to_unix_nanos(), None, "1968");
        assert_eq!(NtpTime::from_bits(u64::MAX >> 1).to_unix_nanos().map(|ns| ns / NANOS), Some(4_233_462_144));
    }

    proptest! {
        #[test]
        fn nanoseconds_until_2104_survive_a_round_trip(s in 0_u64..4_233_462_144, ns in 0..NANOS) {
            let time = s * NANOS + ns;
            prop_assert_eq!(NtpTime::from_unix_nanos(time).to_unix_nanos(), Some(time));
        }

        #[test]
        fn no_bits_panic(bits: u64) {
            let _ = NtpTime::from_bits(bits).to_unix_nanos();
        }
    }
}
