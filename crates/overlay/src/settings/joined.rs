//! Members that are added to a file of settings, as text: what people wrote there stays as it is.

use serde::Deserialize;
use serde::de::IgnoredAny;
use toml::{Spanned, Value};

use super::FileMember;
use super::syntax::parsed;

/// Text of settings with the members that `lines`, as `overlay init` prints them, tell of. They come to the end, or, where the settings list the members as
/// `member = [...]`, into that list: TOML takes either form, and not both in one file.
///
/// # Errors
/// One of both is no TOML, or `lines` have unknown keys or no member. What the whole comes to is not looked at.
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
    let Lines { member: new } = parsed(lines).map_err(|e| format!("the member's lines: {e}"))?;
    let list = listed.member.filter(|list| is_inline(settings.get(list.span()).unwrap_or_default()));
    let Some(list) = list else {
        return Ok(format!("{}\n\n{}", settings.trim_end(), lines.trim_start()));
    };
    let new = new.iter().map(inline).collect::<Vec<_>>().join(",\n  ");
    // Behind the last one, whether a comma follows it or not; or behind the bracket, where a comma may stand at the end.
    let (at, new) = match list.get_ref().last() {
        Some(last) => (last.span().end, format!(",\n  {new}")),
        None => (list.span().start + 1, format!("\n  {new},\n")),
    };
    let (before, after) = settings.split_at_checked(at).ok_or("the list of members has no place for another")?;
    Ok(format!("{before}{new}{after}"))
}

/// Whether this is `[...]`, and no header of a table.
fn is_inline(list: &str) -> bool {
    list.starts_with('[') && !list.starts_with("[[") && list.ends_with(']')
}

/// A member on one line.
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
