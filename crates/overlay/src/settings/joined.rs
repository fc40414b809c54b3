//! Addition of peers to the text of a settings file, which leaves the existing text unchanged.

use serde::Deserialize;
use serde::de::IgnoredAny;
use toml::{Spanned, Value};

use super::FileMember;
use super::syntax::parsed;

/// Adds the peers of `lines`, the output of `overlay init`, to the text of a settings file. They follow its end, or the
/// last entry of an inline list `member = [...]`, as TOML does not allow both forms in one file.
///
/// # Errors
/// Fails when a text is not TOML, or `lines` have unknown keys or no member. The result itself is not checked.
pub fn joined(settings: &str, lines: &str) -> Result<String, String> {
    #[derive(Deserialize)]
    struct Listed {
        member: Option<Spanned<Vec<Spanned<IgnoredAny>>>>,
    }
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Lines {
        member: Vec<FileMember>,
    }
    let listed: Listed = parsed(settings).map_err(|e| format!("the settings: {e}"))?;
    let Lines { member: new } = parsed(lines).map_err(|e| format!("the entry of the peer: {e}"))?;
    let list = listed.member.filter(|list| is_inline(settings.get(list.span()).unwrap_or_default()));
    let Some(list) = list else {
        return Ok(format!("{}\n\n{}", settings.trim_end(), lines.trim_start()));
    };
    let new = new.iter().map(inline).collect::<Vec<_>>().join(",\n  ");
    // After the last entry, which works with and without a trailing comma; in an empty list after the bracket.
    let (at, new) = match list.get_ref().last() {
        Some(last) => (last.span().end, format!(",\n  {new}")),
        None => (list.span().start + 1, format!("\n  {new},\n")),
    };
    let (before, after) =
        settings.split_at_checked(at).ok_or("cannot find the end of the list `member`; add the entry by hand")?;
    Ok(format!("{before}{new}{after}"))
}

/// Whether a list is inline, and not the header of a table.
fn is_inline(list: &str) -> bool {
    list.starts_with('[') && !list.starts_with("[[") && list.ends_with(']')
}

/// Formats a peer as an inline table.
fn inline(member: &FileMember) -> String {
    let text = |text: &str| Value::from(text).to_string();
    let subnets: Vec<String> = member.subnets.iter().map(|s| text(&s.to_string())).collect();
    let keys = [
        member.name.as_deref().map(|name| format!("name = {}", text(name))),
        Some(format!("key = {}", text(&member.key))),
        member.endpoint.as_deref().map(|endpoint| format!("endpoint = {}", text(endpoint))),
        Some(format!("subnets = [{}]", subnets.join(", "))),
        (!member.direct).then(|| "direct = false".to_owned()),
    ];
    format!("{{ {} }}", keys.into_iter().flatten().collect::<Vec<_>>().join(", "))
}
