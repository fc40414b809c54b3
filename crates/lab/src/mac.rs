//! Ethernet addresses of LAN members: locally administered, with the member's number in the last two bytes, so the
//! switch does not have to learn addresses.

const PREFIX: [u8; 2] = [0x02, 0x4c];

/// The address of a LAN member.
pub(crate) fn address(lan: usize, member: usize) -> [u8; 6] {
    let [a, b] = (lan as u16).to_be_bytes();
    let [c, d] = (member as u16).to_be_bytes();
    [PREFIX[0], PREFIX[1], a, b, c, d]
}

/// The member that a frame is addressed to; `None` for all members (broadcast, multicast, or an address that is not the
/// lab's).
pub(crate) fn member(frame: &[u8]) -> Option<usize> {
    match frame {
        [a, b, _, _, c, d, ..] if [*a, *b] == PREFIX => Some(usize::from(u16::from_be_bytes([*c, *d]))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_goes_to_the_member_with_its_address_or_to_all() {
        assert_eq!(member(&address(3, 300)), Some(300));
        assert_eq!(member(&[0xff; 14]), None);
        assert_eq!(member(&[0x33, 0x33, 0, 0, 0, 1]), None, "IPv6 multicast");
        assert_eq!(member(&[]), None);
    }
}
