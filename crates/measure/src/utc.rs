use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Current UTC time by the wall clock in RFC 3339, to the millisecond. It is a label, not for the measurement of
/// durations.
pub fn now() -> String {
    let (seconds, nanos) = kernel::utc_seconds();
    at(seconds, nanos)
}

/// UTC time in RFC 3339, to the millisecond, from the time since 1970; empty after the year 9999.
pub fn at(seconds: u64, nanos: u32) -> String {
    i64::try_from(seconds)
        .ok()
        .and_then(|s| OffsetDateTime::from_unix_timestamp(s).ok())
        .and_then(|t| t.replace_millisecond((nanos / 1_000_000) as u16).ok())
        .and_then(|t| t.format(&Rfc3339).ok())
        .unwrap_or_default()
}
