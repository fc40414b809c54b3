use super::{SOURCE, TARGET, ipv4, ipv6, payload, tcp};
use crate::checksum::{pseudo_header, sum};
use crate::{destination, source, too_big};

/// The formats are those of RFC 792 with RFC 1191, and of RFC 4443 section 3.2.
#[test]
fn the_sender_receives_the_path_mtu() {
    let packet = [ipv4(6, 7, 3000), tcp(1), payload(2968)].concat();
    let answer = too_big(&packet, 1400).unwrap();
    assert_eq!((source(&answer), destination(&answer)), (Some(TARGET.into()), Some(SOURCE.into())));
    assert_eq!((answer[9], &answer[20..22], &answer[24..28]), (1, &[3, 4][..], &[0, 0, 0x05, 0x78][..]));
    assert_eq!(&answer[28..], &packet[..answer.len() - 28], "the packet is quoted");
    assert_eq!((answer.len(), usize::from(answer[2]) << 8 | usize::from(answer[3])), (576, 576));
    // A sum over data with its own checksum is all ones (RFC 1071).
    assert_eq!((sum(&answer[..20], 0), sum(&answer[20..], 0)), (0xffff, 0xffff));

    let packet = [ipv6(17, 3000), payload(3000)].concat();
    let answer = too_big(&packet, 1400).unwrap();
    assert_eq!((answer[6], answer[40], &answer[44..48]), (58, 2, &[0, 0, 0x05, 0x78][..]));
    assert_eq!((&answer[48..], answer.len()), (&packet[..1280 - 48], 1280));
    assert_eq!(sum(&answer[40..], pseudo_header(&answer, 58, answer.len() - 40)), 0xffff);
}

#[test]
fn errors_multicasts_and_fragments_get_no_answer() {
    let packet = |change: fn(&mut Vec<u8>)| {
        let mut p = [ipv4(1, 7, 3000), payload(3000)].concat();
        change(&mut p);
        too_big(&p, 1400)
    };
    assert!(packet(|p| p[20] = 8).is_some(), "an echo request");
    assert!(packet(|p| p[20] = 3).is_none(), "an error");
    assert!(packet(|p| (p[6], p[20]) = (0, 8)).is_none(), "may be fragmented");
    assert!(packet(|p| (p[7], p[20]) = (9, 8)).is_none(), "a later fragment");
    assert!(packet(|p| (p[16], p[20]) = (224, 8)).is_none(), "to many");
    assert!(packet(|p| p.truncate(12)).is_none());
    let error = [ipv6(58, 3000), vec![1; 3000]].concat();
    assert!(too_big(&error, 1400).is_none());
    assert!(too_big(&[], 1400).is_none());
}
