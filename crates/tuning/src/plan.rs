use results::tune::{Judgement, TuneRow, TuneSummary};

use crate::{Setting, same_value};

/// One setting to change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Setting.
    pub setting: Setting,
    /// Present value.
    pub before: String,
    /// New value.
    pub after: String,
}

/// A request that cannot become changes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// There is no row of this name.
    #[error("there is no setting `{0}`; `longhaul tune check` lists them")]
    NoSuchRow(String),
    /// The setting is only shown.
    #[error("`{0}` is advice only: longhaul does not change it")]
    AdviceOnly(String),
    /// The setting belongs to the host.
    #[error("`{0}` belongs to the host: it cannot be changed in this network namespace")]
    OfHost(String),
}

/// Changes that the rows recommend; with `keys` only those of the named settings. A setting with a good value gives no
/// change.
///
/// # Errors
/// A key that names no row, or a setting that cannot be changed.
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

/// Number of rows by judgement.
pub fn summary(rows: &[TuneRow]) -> TuneSummary {
    let count = |judged: &[Judgement]| rows.iter().filter(|r| judged.contains(&r.judgement)).count() as u32;
    TuneSummary {
        to_change: count(&[Judgement::Change]),
        applicable: rows.iter().filter(|r| r.applicable).count() as u32,
        of_host: rows.iter().filter(|r| r.judgement == Judgement::BelongsToHost && r.advised.is_some()).count() as u32,
        unknown: count(&[Judgement::Unknown, Judgement::CannotBeRead]),
    }
}

/// Text of a sysctl.d(5) file that sets these values, after a first line that identifies the file's owner. Settings
/// that are not sysctls are left out.
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
