//! Conversion between entries and rows. Names of values are those of the records.

use std::error::Error;

use rusqlite::types::Type;
use rusqlite::{Row, ToSql};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::entry::{Entry, PathKey};

/// Columns, in the order in which [`entry`] reads them and [`with_columns`] supplies them.
pub(crate) const COLUMNS: &str = "at_s, host, far, local, direction, source, method, quantity, layer, rate_bps, low_bps, \
                                  high_bps, round_trip_ns, bytes";

/// Calls `run` with the values of an entry, in the order of [`COLUMNS`].
pub(crate) fn with_columns<T>(
    entry: &Entry,
    run: impl FnOnce(&[&dyn ToSql]) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    let [far, local, direction] = key(&entry.path);
    run(&[
        &entry.at_s,
        &entry.host,
        &far,
        &local,
        &direction,
        &record_name(&entry.source),
        &entry.method,
        &record_name(&entry.quantity),
        &record_name(&entry.layer),
        &whole(entry.rate_bps),
        &whole(entry.low_bps),
        &whole(entry.high_bps),
        &entry.round_trip_ns.map(whole),
        &whole(entry.bytes),
    ])
}

/// Reads a row of [`COLUMNS`].
pub(crate) fn entry(row: &Row<'_>) -> rusqlite::Result<Entry> {
    Ok(Entry {
        at_s: row.get(0)?,
        host: row.get(1)?,
        path: path(row, 2)?,
        source: read(row, 5)?,
        method: row.get(6)?,
        quantity: read(row, 7)?,
        layer: read(row, 8)?,
        rate_bps: count(row.get(9)?),
        low_bps: count(row.get(10)?),
        high_bps: count(row.get(11)?),
        round_trip_ns: row.get::<_, Option<i64>>(12)?.map(count),
        bytes: count(row.get(13)?),
    })
}

/// Far address, local address and direction, as stored in a row.
pub(crate) fn key(path: &PathKey) -> [String; 3] {
    [path.far().to_string(), path.local().to_string(), record_name(&path.direction())]
}

/// Reads far address, local address and direction from three consecutive columns.
pub(crate) fn path(row: &Row<'_>, first: usize) -> rusqlite::Result<PathKey> {
    let address = |column: usize| -> rusqlite::Result<std::net::IpAddr> {
        row.get::<_, String>(column)?.parse().map_err(|e| unreadable(column, e))
    };
    Ok(PathKey::new(address(first)?, address(first + 1)?, read(row, first + 2)?))
}

/// Name of a value in records.
pub(crate) fn record_name(value: &impl Serialize) -> String {
    let value = serde_json::to_value(value).ok();
    value.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn read<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    serde_json::from_value(Value::String(row.get(column)?)).map_err(|e| unreadable(column, e))
}

fn unreadable(column: usize, why: impl Error + Send + Sync + 'static) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(why))
}

/// Converts a count to SQLite's signed integers, which exceed every measured value.
pub(crate) fn whole(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

pub(crate) fn count(whole: i64) -> u64 {
    u64::try_from(whole).unwrap_or(0)
}
