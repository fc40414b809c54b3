//! The end that asks: `longhaul test`.

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

/// Which addresses of a host name are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Family {
    /// Whatever the resolver offers first.
    #[default]
    Any,
    /// IPv4 only.
    V4,
    /// IPv6 only.
    V6,
}

/// A test as the user asks for it.
#[derive(Debug)]
pub struct ClientOptions {
    /// Host name or address of the server.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Address family.
    pub family: Family,
    /// Local address.
    pub bind: Option<LocalAddress>,
    /// What to do.
    pub plan: TestPlan,
    /// Pre-shared key.
    pub key: Option<Key>,
    /// Label of the run.
    pub title: Option<String>,
    /// Rate of the bottleneck link, for the RFC 6349 metrics.
    pub link_rate: Option<Rate>,
    /// File that is sent instead of filler, or that what arrives is written to; TCP in one direction without zero copy only.
    pub disk: Option<Disk>,
    /// How long to wait after the load for what is under way.
    pub grace: Duration,
    /// When the load begins, on this host's clock ([`kernel::now`]); absent: as soon as all is agreed. With it, several tests on
    /// one machine begin at planned times.
    pub start_at: Option<Instant>,
}

/// Runs a test: gives `observe` each record as it comes, and returns the last.
///
/// `interrupted` tells how often the user asked to stop: once ends the load in order, twice at once.
///
/// # Errors
/// The test could not begin. A test that breaks later ends with a record that says so.
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
