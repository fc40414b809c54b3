/// State of a sender's congestion control (enum tcp_ca_state).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum State {
    /// No disorder and no loss.
    #[default]
    Open,
    /// Packets arrived out of order; none is considered lost.
    Disorder,
    /// The window is being reduced without loss (TCP_CA_CWR).
    Reduction,
    /// Fast recovery after a loss.
    Recovery,
    /// Recovery after a retransmission timeout.
    Loss,
}
