//! Congestion controls of longhaul in the kernel: loading, listing, unloading.
//!
//! Each is pinned in the BPF file system below a directory, by its name: `ops`, the map that holds the registration (BPF_MAP_TYPE_STRUCT_OPS),
//! and `settings`, its parameters, frozen. That is all that is kept of it: what is listed is what the kernel has.

mod error;
mod load;
mod pins;
mod registered;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

pub use error::CongestionError;
pub use load::load;
pub(crate) use load::{broken, check_btf, load_error, refused};
pub use pins::{Loaded, list, unfinished, unload};
pub use registered::unpinned;

/// Where those that `longhaul cc` loads are pinned.
pub const FOLDER: &str = "/sys/fs/bpf/longhaul/congestion";

/// Where the BPF file system is mounted.
const FILE_SYSTEM: &str = "/sys/fs/bpf";

/// The files of one congestion control in a directory.
fn files(directory: &Path, name: &str) -> [PathBuf; 2] {
    [directory.join(name).join(pins::OPS_FILE), directory.join(name).join("settings")]
}
