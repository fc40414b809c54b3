//! Files that are taken for results and are none.

/// What a file is that begins so, and what to do with it; `None` if it may be a result.
pub(crate) fn recognise(begin: &[u8]) -> Option<&'static str> {
    // RFC 1952, 2.3.1.
    if begin.starts_with(b"\x1f\x8b") {
        return Some("it is compressed with gzip; unpack it first: `gunzip -c FILE | longhaul report -`");
    }
    if begin.starts_with(b"\xff\xfe") || begin.starts_with(b"\xfe\xff") {
        return Some(
            "it is text in UTF-16; write it as UTF-8 first: `iconv -f UTF-16 -t UTF-8 FILE | longhaul report -`",
        );
    }
    let text = results::without_mark(begin).trim_ascii_start();
    if text.starts_with(b"[") {
        return Some(
            "it is one JSON array; results have a record on each line: `jq -c '.[]' FILE | longhaul report -`",
        );
    }
    if !text.starts_with(b"{") {
        return None;
    }
    // Its document begins with `start`, which names the version; each line of its --json-stream is an event.
    let has = |word: &[u8]| text.windows(word.len()).any(|w| w == word);
    if has(b"iperf 3") || text.starts_with(b"{\"event\":") {
        return Some("it is a result of iperf3; this makes reports of longhaul's own results");
    }
    let is_spread = text.split(|b| *b == b'\n').next().is_some_and(|line| line.trim_ascii() == b"{");
    is_spread.then_some(
        "its JSON goes over several lines; results have a record on each: `jq -c . FILE | longhaul report -`",
    )
}

#[cfg(test)]
mod tests {
    use super::recognise;

    #[test]
    fn files_of_others_are_called_by_name() {
        let iperf3 = "{\n\t\"start\":\t{\n\t\t\"connected\":\t[],\n\t\t\"version\":\t\"iperf 3.12\",\n";
        let stream = "{\"event\":\"start\",\"data\":{\"connected\":[]}}\n";
        let spread = "{\n  \"record\": \"start\",\n";
        for (begin, what) in [
            (&b"\x1f\x8b\x08\0"[..], "gunzip"),
            (b"\xff\xfe{\0\"\0", "UTF-16"),
            (b"\xfe\xff\0{", "UTF-16"),
            (b"[{\"record\":\"start\"}]", "jq -c '.[]'"),
            (iperf3.as_bytes(), "iperf3"),
            (stream.as_bytes(), "iperf3"),
            (spread.as_bytes(), "jq -c ."),
        ] {
            assert!(recognise(begin).is_some_and(|said| said.contains(what)), "{what}");
        }
        for ours in ["", "\n\n", "{\"record\":\"start\"}\n", "\u{feff}{\"record\":\"start\"}", "hello"] {
            assert_eq!(recognise(ours.as_bytes()), None, "{ours}");
        }
    }
}
