//! Capture of libbpf's messages, which are not printed on the user's terminal.

use std::cell::RefCell;
use std::sync::Once;

use libbpf_rs::{PrintLevel, set_print};

thread_local! {
    /// Warnings of libbpf since [`listen`], on the thread that called it.
    static WARNINGS: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Maximum lines of a verifier's log that are shown: the last ones name the refused instruction.
const LOG_LINES: usize = 25;

/// Sends all that libbpf prints to `tracing` from now on, and forgets earlier warnings.
pub(crate) fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        set_print(Some((PrintLevel::Debug, print)));
    });
    WARNINGS.with_borrow_mut(String::clear);
}

/// The last lines of libbpf's warnings on this thread; the verifier's log is one of them.
pub(crate) fn last_warnings() -> String {
    WARNINGS.with_borrow(|text| {
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
    })
}

fn print(level: PrintLevel, text: String) {
    match level {
        // A warning of libbpf is the explanation of an error that the caller reports.
        PrintLevel::Warn => {
            tracing::debug!("libbpf: {}", text.trim_end());
            WARNINGS.with_borrow_mut(|warnings| warnings.push_str(&text));
        }
        PrintLevel::Info => tracing::debug!("libbpf: {}", text.trim_end()),
        PrintLevel::Debug => tracing::trace!("libbpf: {}", text.trim_end()),
    }
}
