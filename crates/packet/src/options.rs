//! The options of a TCP header (RFC 9293, section 3.1).

const END_OF_OPTIONS: u8 = 0;
const NO_OPERATION: u8 = 1;
/// Maximum segment size.
pub(crate) const MSS: u8 = 2;
/// Signatures over the whole segment (RFC 2385, RFC 5925).
pub(crate) const MD5_SIGNATURE: u8 = 19;
pub(crate) const TCP_AO: u8 = 29;

/// Kind and range of each option, counted from the start of the TCP header. Options without a length are skipped.
pub(crate) fn of(tcp: &[u8]) -> impl Iterator<Item = (u8, core::ops::Range<usize>)> + '_ {
    let end = tcp.get(12).map_or(0, |b| usize::from(b >> 4) * 4).min(tcp.len());
    let mut at = 20;
    core::iter::from_fn(move || {
        while at < end && tcp.get(at) == Some(&NO_OPERATION) {
            at += 1;
        }
        let kind = *tcp.get(at).filter(|kind| at < end && **kind != END_OF_OPTIONS)?;
        let option = at..at + usize::from(*tcp.get(at + 1)?).max(2);
        at = option.end;
        (option.end <= end).then_some((kind, option))
    })
}
