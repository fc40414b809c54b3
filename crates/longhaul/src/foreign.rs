//! Recognition of files that are mistaken for results.

/// Describes a file that is not a result, and how to convert it; `None` if it may be a result. `start` is its first
/// bytes.
pub(crate) fn recognise(start: &[u8]) -> Option<&'static str> {
    if start.starts_with(b"\xff\xfe") || start.starts_with(b"\xfe\xff") {
        return Some("it is text in UTF-16; convert it to UTF-8: `iconv -f UTF-16 -t UTF-8 FILE | longhaul report -`");
    }
    let text = results::without_mark(start).trim_ascii_start();
    if text.starts_with(b"[") {
        return Some("it is one JSON array; results have one record per line: `jq -c '.[]' FILE | longhaul report -`");
    }
    if !text.starts_with(b"{") {
        return None;
    }
    // A document of iperf3 starts with `start`, which contains the version; a line of its --json-stream is an event.
    let has = |bytes: &[u8]| text.windows(bytes.len()).any(|w| w == bytes);
    if has(b"iperf 3") || text.starts_with(b"{\"event\":") {
        return Some("it is a result of iperf3; `longhaul report` reads results of longhaul only");
    }
    let is_multiline = text.split(|b| *b == b'\n').next().is_some_and(|line| line.trim_ascii() == b"{");
    is_multiline.then_some(
        "its JSON records span several lines; results have one record per line: `jq -c . FILE | longhaul report -`",
    )
}

/// Describes the records of another command of longhaul, by their first line; `None` if `longhaul report` reads them.
pub(crate) fn recognise_command(line: &[u8]) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct First {
        schema: String,
    }
    let first: First = serde_json::from_slice(line).ok()?;
    let command = first.schema.strip_prefix("longhaul.")?.split_once('/')?.0;
    let page = match command {
        "estimate" => "it writes its own page: `longhaul estimate HOST --report FILE.html`",
        "history" => "it writes its own page: `longhaul history --report FILE.html`",
        "evaluate" => "it writes its own page: `longhaul evaluate DIR --report FILE.html`",
        "cc" | "choose" | "model" | "shape" | "tune" => "it has no page",
        _ => return None,
    };
    Some(format!("the records are of `longhaul {command}`; {page}"))
}

#[cfg(test)]
mod tests {
    use results::choose::CHOOSE_SCHEMA;
    use results::estimate::ESTIMATE_SCHEMA;

    use super::{recognise, recognise_command};

    #[test]
    fn foreign_files_are_recognised() {
        let iperf3 = "{\n\t\"start\":\t{\n\t\t\"connected\":\t[],\n\t\t\"version\":\t\"iperf 3.12\",\n";
        let stream = "{\"event\":\"start\",\"data\":{\"connected\":[]}}\n";
        let spread = "{\n  \"record\": \"start\",\n";
        for (start, what) in [
            (&b"\xff\xfe{\0\"\0"[..], "UTF-16"),
            (b"\xfe\xff\0{", "UTF-16"),
            (b"[{\"record\":\"start\"}]", "jq -c '.[]'"),
            (iperf3.as_bytes(), "iperf3"),
            (stream.as_bytes(), "iperf3"),
            (spread.as_bytes(), "jq -c ."),
        ] {
            assert!(recognise(start).is_some_and(|text| text.contains(what)), "{what}");
        }
        for ours in ["", "\n\n", "{\"record\":\"start\"}\n", "\u{feff}{\"record\":\"start\"}", "hello"] {
            assert_eq!(recognise(ours.as_bytes()), None, "{ours}");
        }
    }

    #[test]
    fn records_of_other_commands_are_described_and_those_of_the_report_are_not() {
        let of =
            |schema: &str| recognise_command(format!("{{\"record\":\"start\",\"schema\":\"{schema}\"}}").as_bytes());
        for schema in
            [results::SCHEMA, results::lab::LAB_SCHEMA, results::trace::TRACE_SCHEMA, "longhaul.weather/1", "other"]
        {
            assert_eq!(of(schema), None, "{schema}");
        }
        assert!(of(ESTIMATE_SCHEMA).unwrap().contains("longhaul estimate HOST --report"));
        assert!(of(CHOOSE_SCHEMA).unwrap().contains("`longhaul choose`"));
    }
}
