use super::*;

const D: Member = Member(9);

fn via(relays: &[u32]) -> Path {
    Path::via(&relays.iter().map(|m| Member(*m)).collect::<Vec<_>>(), D).unwrap()
}

#[test]
fn a_path_is_shown_by_its_relays() {
    assert_eq!(Path::direct(D).to_string(), "direct");
    assert_eq!(via(&[0xa1b2_c3d4, 42]).to_string(), "via a1b2c3d4, 0000002a");
}

#[test]
fn nobody_is_on_a_path_twice() {
    assert_eq!(Path::via(&[Member(1), Member(1)], D), None);
    assert_eq!(Path::via(&[D], D), None);
    assert_eq!(Path::via(&[1, 2, 3, 4].map(Member), D), None);
    assert_eq!(via(&[]), Path::direct(D));
}

#[test]
fn links_lead_from_the_source_to_the_destination() {
    let links: Vec<_> = via(&[1, 2]).links(Member(0)).map(|(a, b)| (a.0, b.0)).collect();
    assert_eq!(links, [(0, 1), (1, 2), (2, 9)]);
    assert_eq!(via(&[1, 2]).first_hop(), Member(1));
    assert_eq!(Path::direct(D).first_hop(), D);
}

#[test]
fn paths_are_disjoint_without_a_common_relay_unless_both_are_direct() {
    assert!(via(&[1, 2]).is_disjoint(&via(&[3])));
    assert!(via(&[1]).is_disjoint(&via(&[])));
    assert!(!via(&[1, 2]).is_disjoint(&via(&[3, 1])));
    assert!(!via(&[]).is_disjoint(&via(&[])));
}

#[test]
fn a_record_of_a_path_names_only_the_relays_that_there_are() {
    let text = serde_json::to_string(&via(&[7])).unwrap();
    assert_eq!(text, r#"{"relays":[7],"destination":9}"#);
    assert_eq!(serde_json::from_str::<Path>(&text).unwrap(), via(&[7]));
    assert!(serde_json::from_str::<Path>(r#"{"relays":[7,7],"destination":9}"#).is_err());
    assert!(serde_json::from_str::<Path>(r#"{"relays":[1,2,3,4],"destination":9}"#).is_err());
}

#[test]
fn paths_with_fewer_relays_come_first() {
    assert!(via(&[]) < via(&[0]));
    assert!(via(&[9999]) < via(&[0, 1]));
    assert!(via(&[1, 2]) < via(&[1, 3]));
}
