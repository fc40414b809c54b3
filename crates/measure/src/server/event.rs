//! What reaches a session from its threads and connections.

use crate::MeasureError;
use crate::control::Incoming;
use crate::load::{SideEvent, StreamSocket};

/// What a session waits for.
#[derive(Debug)]
pub(crate) enum SessionEvent {
    Control(Result<Incoming, MeasureError>),
    Joined(StreamSocket),
    Side(SideEvent),
}
