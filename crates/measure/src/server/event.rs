//! Events that reach a session from its threads and connections.

use crate::MeasureError;
use crate::control::Incoming;
use crate::load::{SideEvent, StreamSocket};

/// Input of a session.
#[derive(Debug)]
pub(crate) enum SessionEvent {
    Control(Result<Incoming, MeasureError>),
    Joined(StreamSocket),
    Side(SideEvent),
}
