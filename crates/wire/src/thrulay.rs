//! thrulay version 2, both ends (reference 1.2 and 1.6): the exchange after the greeting and the proposal.
//!
//! All control text is ASCII and decimal, without line ends or lengths. Old peers read each text with one `recv`:
//! send each with one write, and nothing after it before the answer.

mod ntp;
mod report;
mod report_reader;
mod tcp;
mod udp;

pub use ntp::NtpTime;
pub use report::{DelayQuantiles, N_REORDERING_MAX, UdpReport};
pub use report_reader::{REPORT_BYTES_MAX, ReadReport, Reported, read_report};
pub use tcp::{BLOCK_BYTES, TcpTerms, WINDOW_MIN, parse_tcp_response};
pub use udp::{
    IpVersion, THRULAY_DATAGRAM_HEADER_BYTES, ThrulayDatagram, UDP_REFUSAL, UdpAnswer, UdpTerms, encode_end, parse_end,
    parse_udp_response, rate_per_1000s,
};
