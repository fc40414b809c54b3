//! Characters that a reader cannot see, or that change how the text around them looks.

/// Whether `c` is invisible or reorders the text around it, so that two different names can look alike (Unicode TR 36,
/// sections 2.1 and 2.6): bidirectional controls, zero-width characters, fillers and tags.
///
/// Control characters and white space do not count; `char` has methods for them.
pub const fn is_deceptive(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_hide_or_reorder_text_are_deceptive_and_letters_are_not() {
        // Right-to-left override, zero-width space, joiner, byte order mark, isolate, Hangul filler, tag.
        for c in ['\u{202e}', '\u{200b}', '\u{200d}', '\u{feff}', '\u{2066}', '\u{3164}', '\u{e0041}'] {
            assert!(is_deceptive(c), "{:x}", u32::from(c));
        }
        for c in ['a', ' ', '\n', '\u{a0}', '\u{fc}', '\u{5d0}', '\u{4e2d}', '\u{2192}', '\u{1f600}'] {
            assert!(!is_deceptive(c), "{:x}", u32::from(c));
        }
    }
}
