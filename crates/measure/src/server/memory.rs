//! Maximum memory of this process for a session, independent of its client's behaviour.

use results::TestPlan;
use units::Bytes;

use crate::load::stream_numbers;

/// Memory of a session besides its streams, in bytes: messages of the client that wait or are being parsed.
const SESSION_BYTES: u64 = 4 << 20;

/// Memory of a stream in bytes: mostly its histograms, and the receiver's buffer of 1 MiB. Two tests of 128 streams
/// used 5.6 MB for each stream.
const STREAM_BYTES: u64 = 6 << 20;

/// Memory of a thrulay session: one stream, no messages.
pub(crate) const THRULAY_MEMORY: Bytes = Bytes::new(STREAM_BYTES);

/// Maximum memory of a test in this process. It is independent of the block size: all senders share one filler.
pub(crate) fn memory_of(plan: &TestPlan) -> Bytes {
    Bytes::new(SESSION_BYTES + STREAM_BYTES * stream_numbers(plan).len() as u64)
}
