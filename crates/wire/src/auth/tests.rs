use super::*;
use crate::hex;
use proptest::prelude::*;

/// RFC 4231 §4.2-4.8 (test case 5 is truncated and does not apply): key, data, HMAC-SHA-256.
#[test]
fn the_mac_agrees_with_rfc_4231() {
    let cases: [(Vec<u8>, Vec<u8>, &str); 6] = [
        (vec![0x0b; 20], b"Hi There".to_vec(), "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"),
        (
            b"Jefe".to_vec(),
            b"what do ya want for nothing?".to_vec(),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
        ),
        (vec![0xaa; 20], vec![0xdd; 50], "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"),
        ((1..=25).collect(), vec![0xcd; 50], "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b"),
        (
            vec![0xaa; 131],
            b"Test Using Larger Than Block-Size Key - Hash Key First".to_vec(),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
        ),
        (
            vec![0xaa; 131],
            b"This is a test using a larger than block-size key and a larger than block-size data. \
              The key needs to be hashed before being used by the HMAC algorithm."
                .to_vec(),
            "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2",
        ),
    ];
    for (key, data, expected) in cases {
        let mut mac = Key::from_bytes(&key).mac();
        mac.update(&data);
        assert_eq!(hex::encode(&finish(mac)), expected);
    }
}

#[test]
fn weak_and_wrong_key_files_are_explained() {
    assert_eq!(Key::from_file_text(" \n").unwrap_err(), KeyError::Empty);
    assert_eq!(Key::from_file_text("secret\n").unwrap_err(), KeyError::TooShort { length: 6 });
    assert_eq!(Key::from_file_text(&"x".repeat(5000)).unwrap_err(), KeyError::TooLong { length: 5000 });
    assert!(Key::from_file_text("0123456789abcdef\n").is_ok());
    assert!(KeyError::TooShort { length: 6 }.to_string().contains("/dev/urandom"));
}

#[test]
fn a_key_is_never_printed() {
    let key = Key::from_file_text("0123456789abcdef").unwrap();
    assert_eq!(format!("{key:?}"), "Key(..)");
}

#[test]
fn the_kinds_of_proof_differ_on_equal_input() {
    let key = Key::from_file_text("0123456789abcdef").unwrap();
    let n = [7; 16];
    let proofs = [
        server_proof(&key, &n, &n),
        client_proof(&key, &n, &n, b""),
        join_proof(&key, &n, &n, [0; 8], 0, Direction::Up),
    ];
    assert!(proofs[0] != proofs[1] && proofs[1] != proofs[2] && proofs[0] != proofs[2]);
}

fn flipped<const N: usize>(mut bytes: [u8; N], bit: usize) -> [u8; N] {
    bytes[bit / 8 % N] ^= 1 << (bit % 8);
    bytes
}

proptest! {
    #[test]
    fn any_changed_input_fails(text in "[!-~]{16,100}", c: [u8; 16], s: [u8; 16], session: [u8; 8], stream: u32, bit in 0_usize..256) {
        let key = Key::from_file_text(&text).unwrap();
        let other = Key::from_file_text(&format!("{text}x")).unwrap();
        let (c2, s2) = (flipped(c, bit), flipped(s, bit));

        let proof = server_proof(&key, &c, &s);
        prop_assert!(verify_server(&key, &c, &s, &proof));
        prop_assert!(!verify_server(&other, &c, &s, &proof));
        prop_assert!(!verify_server(&key, &c2, &s, &proof));
        prop_assert!(!verify_server(&key, &c, &s2, &proof));
        prop_assert!(!verify_server(&key, &c, &s, &flipped(proof, bit)));
        prop_assert!(c == s || !verify_server(&key, &s, &c, &proof), "the roles of the nonces do not commute");

        let plan = session;
        let proof = client_proof(&key, &c, &s, &plan);
        prop_assert!(verify_client(&key, &c, &s, &plan, &proof));
        prop_assert!(!verify_client(&other, &c, &s, &plan, &proof));
        prop_assert!(!verify_client(&key, &c2, &s, &plan, &proof));
        prop_assert!(!verify_client(&key, &c, &s2, &plan, &proof));
        prop_assert!(!verify_client(&key, &c, &s, &flipped(plan, bit), &proof));
        prop_assert!(!verify_client(&key, &c, &s, &plan[..7], &proof));
        prop_assert!(!verify_client(&key, &c, &s, &plan, &flipped(proof, bit)));

        let proof = join_proof(&key, &c, &s, session, stream, Direction::Up);
        prop_assert!(verify_join(&key, &c, &s, session, stream, Direction::Up, &proof));
        prop_assert!(!verify_join(&other, &c, &s, session, stream, Direction::Up, &proof));
        prop_assert!(!verify_join(&key, &c2, &s, session, stream, Direction::Up, &proof));
        prop_assert!(!verify_join(&key, &c, &s2, session, stream, Direction::Up, &proof));
        prop_assert!(!verify_join(&key, &c, &s, flipped(session, bit), stream, Direction::Up, &proof));
        prop_assert!(!verify_join(&key, &c, &s, session, stream ^ (1 << (bit % 32)), Direction::Up, &proof));
        prop_assert!(!verify_join(&key, &c, &s, session, stream, Direction::Down, &proof));
        prop_assert!(!verify_join(&key, &c, &s, session, stream, Direction::Up, &flipped(proof, bit)));
    }
}
