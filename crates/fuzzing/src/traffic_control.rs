//! Traffic control messages of the kernel.

use tc::{Object, Operation, Tree, decode};

/// Message kinds of route netlink: RTM_NEWQDISC, RTM_NEWTCLASS, RTM_NEWTFILTER (linux/rtnetlink.h).
const KINDS: [u16; 3] = [36, 40, 44];

/// Objects, each with one byte for its kind and two for its length. A decoded object can be encoded and decoded again.
pub(crate) fn traffic_control(mut data: &[u8]) {
    let mut objects = Vec::new();
    while let Some((&[kind, low, high], rest)) = data.split_first_chunk::<3>() {
        let (body, rest) = rest.split_at(rest.len().min(usize::from(u16::from_le_bytes([low, high]))));
        data = rest;
        let kind = KINDS.get(usize::from(kind)).copied().unwrap_or_else(|| u16::from(kind));
        if let Ok((device, object, _)) = decode(kind, body) {
            installs(device, &object);
            objects.push(object);
        }
    }
    let found = Tree::found(objects.clone());
    let _ = Tree::planned(objects).operations_from(&found);
}

fn installs(device: u32, object: &Object) {
    let operation = Operation::Add(object.clone());
    let message = operation.message(device);
    let _ = operation.command("eth0", |user| user.to_string());
    let Ok((of, again, _)) = decode(message.kind, &message.body) else { return };
    assert_eq!(of, device);
    // Decoding orders the attributes like the kernel; a second round changes nothing.
    let repeated = Operation::Add(again.clone()).message(device);
    assert_eq!(decode(repeated.kind, &repeated.body).map(|(_, object, _)| object), Ok(again));
}
