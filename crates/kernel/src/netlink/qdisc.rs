use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{TcAttribute, TcMessage};

/// The question for the queueing disciplines of all devices.
pub(super) fn all() -> RouteNetlinkMessage {
    RouteNetlinkMessage::GetQueueDiscipline(TcMessage::default())
}

/// The kind of a queueing discipline, if it belongs to the device and stands on its way out.
pub(super) fn kind_on(answer: &RouteNetlinkMessage, device: u32) -> Option<String> {
    let RouteNetlinkMessage::NewQueueDiscipline(message) = answer else { return None };
    if message.header.index != i32::try_from(device).ok()? {
        return None;
    }
    let kind =
        message.attributes.iter().find_map(|a| if let TcAttribute::Kind(k) = a { Some(k.clone()) } else { None })?;
    // Those two stand on the way in.
    (kind != "ingress" && kind != "clsact").then_some(kind)
}
