//! thrulay version 2 as client and server, over TCP and UDP: tests with thrulayd and with thrulay clients.
//!
//! [`wire::thrulay`] encodes the texts; sections 1.2 and 1.6 of its reference specify them. The protocol has no control
//! channel besides the data: the server reports nothing about a TCP test, and only a final text about a UDP test.

mod echo;
mod follow;
mod open;
mod receive;
mod serve;
mod summary;
mod tcp_test;
mod text;
mod udp_test;

pub(crate) use serve::serve;
pub(crate) use text::is_disconnect;

use std::net::SocketAddr;

use results::{Direction, EndRecord, Record, Transport};

use crate::MeasureError;
use crate::client::ClientOptions;

/// Name of the protocol in records and logs.
const PROTOCOL: &str = "thrulay/2";

/// Runs the test of `options` with the thrulay server at `target`, which closed the connection after the native hello.
///
/// # Errors
/// thrulay does not support the plan, or the test could not start.
pub(crate) fn run_test(
    options: &ClientOptions,
    target: SocketAddr,
    observe: &mut dyn FnMut(&Record),
    interrupted: &dyn Fn() -> usize,
) -> Result<EndRecord, MeasureError> {
    let unsupported = |what: &str| Err(MeasureError::Unsupported(format!("{target} speaks thrulay version 2, {what}")));
    if options.key.is_some() {
        return unsupported("which cannot prove that it holds the pre-shared key (--key-file)");
    }
    if options.plan.directions != [Direction::Up] {
        return unsupported("in which only the client sends: leave out --reverse and --bidir, or run longhaul there");
    }
    match options.plan.transport {
        Transport::Tcp => tcp_test::run(options, target, observe, interrupted),
        Transport::UdpConstant | Transport::UdpPoisson if options.plan.streams > 1 => {
            unsupported("whose UDP test has a single stream")
        }
        Transport::UdpConstant | Transport::UdpPoisson => udp_test::run(options, target, observe, interrupted),
        Transport::Probe => unsupported("which answers no probes"),
    }
}

#[cfg(test)]
mod tests;
