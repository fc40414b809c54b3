use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The wall clock's time in RFC 3339, to the millisecond; a label, never a measure.
pub fn now() -> String {
    let (seconds, nanos) = kernel::utc_seconds();
    at(seconds, nanos)
}

/// The same of another time, since 1970; nothing beyond the year 9999.
pub fn at(seconds: u64, nanos: u32) -> String {
    i64::try_from(seconds)
        .ok()
        .and_then(|s| OffsetDateTime::from_unix_timestamp(s).ok())
        .and_then(|t| t.replace_millisecond((nanos / 1_000_000) as u16).ok())
        .and_then(|t| t.format(&Rfc3339).ok())
        .unwrap_or_default()
}
