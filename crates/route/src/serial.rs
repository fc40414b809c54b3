//! How spans of time stand in records: whole nanoseconds, under a key that says so.

/// A [`Duration`](units::Duration) as nanoseconds.
pub(crate) mod nanos {
    use serde::{Deserialize, Deserializer, Serializer};
    use units::Duration;

    pub(crate) fn serialize<S: Serializer>(d: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(units::nanos(*d))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_nanos)
    }
}
