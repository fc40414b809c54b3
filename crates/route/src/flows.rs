//! Which flow takes which path: the flow table, the spreading of flows, and the moving of single large ones.
//!
//! As in SAFIRE (Mark et al. 2008, §II.B) an entry points to a routing entry, not to a path: when route control changes the path of the
//! routing entry, all its flows move at once, and until then each stays where it is.

mod balance;
mod key;
mod spread;
mod table;

pub use balance::Share;
pub use key::FlowKey;
pub use spread::{spread, spread_by};
pub use table::{Active, Found, RouteId, Settings, Table};

#[cfg(test)]
mod tests;
