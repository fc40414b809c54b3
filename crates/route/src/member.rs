use core::fmt;

use serde::{Deserialize, Serialize};

/// The number of a member of the overlay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Member(pub u32);

impl fmt::Display for Member {
    /// Eight hexadecimal digits: `0000002a`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}
