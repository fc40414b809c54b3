//! The programs and their reference in crate `congestion`, fed the same: windows are equal to the packet. And the programs registered.

mod registration;
mod replay;
