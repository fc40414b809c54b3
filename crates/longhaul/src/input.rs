//! Files that a command reads as text.

use std::path::Path;

use anyhow::Context as _;

/// Maximum size of an experiment or policy file.
pub(crate) const FILE_BYTES_MAX: u64 = 16 << 20;
/// Maximum size of a file that an experiment names, such as a trace of a link.
pub(crate) const REFERENCED_BYTES_MAX: u64 = 256 << 20;
/// Maximum size of a key, a secret or a list of peer entries.
pub(crate) const SMALL_BYTES_MAX: u64 = 1 << 20;

/// Reads an experiment or policy file.
pub(crate) fn read_text(path: &Path) -> anyhow::Result<String> {
    kernel::read_regular(path, FILE_BYTES_MAX).with_context(|| format!("cannot read {}", path.display()))
}

/// Reads a file that an experiment names.
pub(crate) fn read_referenced(path: &Path) -> Result<String, String> {
    kernel::read_regular(path, REFERENCED_BYTES_MAX).map_err(|e| e.to_string())
}
