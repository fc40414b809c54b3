//! Ethernet addresses of LAN members: locally administered, with the member's number in the last two bytes, so that the switch
//! needs no learning.

const PREFIX: [u8; 2] = [0x02, 0x4c];

/// The address of a member of a LAN.
pub(crate) fn address(lan: usize, member: usize) -> [u8; 6] {
    let [a, b] = (lan as u16).to_be_bytes();
    let [c, d] = (member as u16).to_be_bytes();
    [PREFIX[0], PREFIX[1], a, b, c, d]
}

/// The member that a frame is for; `None` when it is for all (broadcast, multicast, or an address that the lab did not give).
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
    fn a_frame_is_for_the_member_whose_address_it_bears_or_for_all() {
        assert_eq!(member(&address(3, 300)), Some(300));
        assert_eq!(member(&[0xff; 14]), None);
        assert_eq!(member(&[0x33, 0x33, 0, 0, 0, 1]), None, "IPv6 multicast");
        assert_eq!(member(&[]), None);
    }
}
