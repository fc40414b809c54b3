//! Client: `longhaul test`.

mod clock;
mod connect;
mod gathered;
mod path_mtu;
mod run;
mod summary;

use std::time::Duration;

use kernel::LocalAddress;
use results::{EndRecord, Record, TestPlan};
use units::{Instant, Rate};
use wire::Key;

use crate::MeasureError;
use crate::load::Disk;
pub(crate) use clock::Idle;
pub(crate) use connect::{Opened, Session, greet, open};
pub(crate) use gathered::Gathered;
pub(crate) use summary::end_record;

/// Address families used of a host name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Family {
    /// The first address of the resolver.
    #[default]
    Any,
    /// IPv4 only.
    V4,
    /// IPv6 only.
    V6,
}

/// A test as requested by the user.
#[derive(Debug)]
pub struct ClientOptions {
    /// Host name or address of the server.
    pub host: String,
    /// Port of the server.
    pub port: u16,
    /// Address family.
    pub family: Family,
    /// Local address.
    pub bind: Option<LocalAddress>,
    /// Test to run.
    pub plan: TestPlan,
    /// Pre-shared key.
    pub key: Option<Key>,
    /// Label of the run.
    pub title: Option<String>,
    /// Rate of the bottleneck link, for the RFC 6349 metrics.
    pub link_rate: Option<Rate>,
    /// File that is sent instead of filler, or into which received data is written; only for TCP in one direction
    /// without zero copy.
    pub disk: Option<Disk>,
    /// Maximum wait after the load for data in flight.
    pub grace: Duration,
    /// Start of the load on this host's clock ([`kernel::now`]); absent: as soon as both ends are ready. It
    /// synchronises several tests on one machine.
    pub start_at: Option<Instant>,
}

/// Runs a test, passes each record to `observe`, and returns the last one.
///
/// `interrupted` returns the number of stop requests of the user: the first ends the load in order, the second at once.
///
/// # Errors
/// The test could not start. A test that fails later ends with a record that contains the reason.
pub fn run_test(
    options: &ClientOptions,
    observe: &mut dyn FnMut(&Record),
    interrupted: &dyn Fn() -> usize,
) -> Result<EndRecord, MeasureError> {
    wire::validate_plan(&options.plan)?;
    match open(options)? {
        Opened::Native(session) => run::run(options, *session, observe, interrupted),
        Opened::Thrulay(address) => crate::thrulay::run_test(options, address, observe, interrupted),
    }
}
