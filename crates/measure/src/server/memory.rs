//! What a session may need of this process's memory, whatever its client does.

use results::TestPlan;
use units::Bytes;

use crate::load::stream_numbers;

/// What a session needs whatever its streams are: the client's messages while they are parsed, and those that wait.
const SESSION: u64 = 4 << 20;

/// What a stream needs: its histograms, which are most of it, and the receiver's buffer of 1 MiB. Two tests of 128 streams took 5.6 MB a stream.
const STREAM: u64 = 6 << 20;

/// A session of thrulay: one stream, no messages.
pub(crate) const THRULAY_MEMORY: Bytes = Bytes::new(STREAM);

/// The memory that a test may need in this process. The length of its blocks is no part of it: all senders share one
/// filler.
pub(crate) fn memory_of(plan: &TestPlan) -> Bytes {
    Bytes::new(SESSION + STREAM * stream_numbers(plan).len() as u64)
}
