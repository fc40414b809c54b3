//! Capture of libbpf's messages, which are not printed on the user's terminal.

use std::cell::RefCell;
use std::sync::Once;

use libbpf_rs::{PrintLevel, set_print};

thread_local! {
    /// Warnings of libbpf since [`capture`] was called on this thread.
    static WARNINGS: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Maximum lines of the verifier's log in an error. The last lines name the rejected instruction.
const LOG_LINES_MAX: usize = 25;

/// Redirects the output of libbpf to `tracing`, and clears the warnings of this thread.
pub(crate) fn capture() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        set_print(Some((PrintLevel::Debug, print)));
    });
    WARNINGS.with_borrow_mut(String::clear);
}

/// The last lines of libbpf's warnings on this thread, which include the verifier's log.
pub(crate) fn last_warnings() -> String {
    WARNINGS.with_borrow(|text| {
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES_MAX)..].join("\n")
    })
}

fn print(level: PrintLevel, text: String) {
    match level {
        // Warnings of libbpf explain an error that the caller reports.
        PrintLevel::Warn => {
            tracing::debug!("libbpf: {}", text.trim_end());
            WARNINGS.with_borrow_mut(|warnings| warnings.push_str(&text));
        }
        PrintLevel::Info => tracing::debug!("libbpf: {}", text.trim_end()),
        PrintLevel::Debug => tracing::trace!("libbpf: {}", text.trim_end()),
    }
}
