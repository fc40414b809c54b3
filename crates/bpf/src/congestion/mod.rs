//! Loading, listing and unloading of longhaul's congestion controls in the kernel.
//!
//! Each congestion control is pinned in the BPF file system in a directory with its name: `ops`, the map that holds the
//! registration (BPF_MAP_TYPE_STRUCT_OPS), and `settings`, its frozen parameters. There is no other state, so that a
//! listing shows the state of the kernel.

mod error;
mod load;
mod pins;
mod registered;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

pub use error::CongestionError;
pub(crate) use load::{check_btf, load_error, missing_part, refused};
pub use load::{is_supported, load};
pub use pins::{Loaded, list, unfinished, unload};
pub use registered::unpinned;

/// Directory in which `longhaul cc` pins congestion controls.
pub const DIRECTORY: &str = "/sys/fs/bpf/longhaul/congestion";

/// Mount point of the BPF file system.
const FILE_SYSTEM: &str = "/sys/fs/bpf";

/// Pinned files of one congestion control.
fn files(directory: &Path, name: &str) -> [PathBuf; 2] {
    [directory.join(name).join(pins::OPS_FILE), directory.join(name).join("settings")]
}
