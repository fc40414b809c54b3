use results::tune::{Judgement, TuneRow, TuneSummary};

use crate::{Setting, same_value};

/// One setting to change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Which.
    pub setting: Setting,
    /// As it was found.
    pub before: String,
    /// As it is to be.
    pub after: String,
}

/// A request that cannot become changes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// There is no row of this name.
    #[error("there is no setting `{0}`; `longhaul tune check` lists them")]
    NoSuchRow(String),
    /// The row is shown only.
    #[error("`{0}` is advice only: longhaul does not change it")]
    AdviceOnly(String),
    /// The row is the host's.
    #[error("`{0}` belongs to the host: it cannot be changed in this network namespace")]
    OfHost(String),
}

/// The changes that the rows ask for; with `keys` only those. A key that is good as it is gives no change.
///
/// # Errors
/// A key that names no row, or one that cannot be changed.
pub fn planned(rows: &[TuneRow], keys: &[String]) -> Result<Vec<Change>, PlanError> {
    for key in keys {
        let row = rows.iter().find(|r| r.key == *key).ok_or_else(|| PlanError::NoSuchRow(key.clone()))?;
        match row.judgement {
            Judgement::BelongsToHost => return Err(PlanError::OfHost(key.clone())),
            Judgement::Change if !row.applicable => return Err(PlanError::AdviceOnly(key.clone())),
            Judgement::Change | Judgement::Good | Judgement::Unknown | Judgement::CannotBeRead => {}
        }
    }
    let wanted = rows.iter().filter(|r| r.applicable && (keys.is_empty() || keys.contains(&r.key)));
    Ok(wanted.filter_map(change).filter(|c| !same_value(&c.before, &c.after)).collect())
}

fn change(row: &TuneRow) -> Option<Change> {
    Some(Change { setting: row.key.parse().ok()?, before: row.found.clone()?, after: row.advised.clone()? })
}

/// How many rows ask for what.
pub fn summary(rows: &[TuneRow]) -> TuneSummary {
    let count = |judged: &[Judgement]| rows.iter().filter(|r| judged.contains(&r.judgement)).count() as u32;
    TuneSummary {
        to_change: count(&[Judgement::Change]),
        applicable: rows.iter().filter(|r| r.applicable).count() as u32,
        of_host: rows.iter().filter(|r| r.judgement == Judgement::BelongsToHost && r.advised.is_some()).count() as u32,
        unknown: count(&[Judgement::Unknown, Judgement::CannotBeRead]),
    }
}

/// The text of a file for sysctl.d(5) that sets these values, after a first line that says whose it is. Settings that are no
/// sysctls have no place in such a file and are left out.
pub fn persistent<'a>(head: &str, values: impl IntoIterator<Item = (&'a Setting, &'a str)>) -> String {
    let mut text = format!("{head}\n");
    for (setting, value) in values {
        match setting {
            Setting::Sysctl(key) => text += &format!("{key} = {value}\n"),
            Setting::QueueLength(_) | Setting::Offload(..) => {}
        }
    }
    text
}
