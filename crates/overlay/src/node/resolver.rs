//! Looks up the names of members' endpoints. A resolver that is not reached takes half a minute to say so: nobody waits for it, not even at the end.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use route::Member;

use super::Input;
use crate::OverlayError;
use crate::settings::{Endpoint, HostPort, Settings, device_and_scope};

/// How long a start waits for names, that of a member in whose subnets the resolver is: packets to it go into the tunnel afterwards.
const BEFORE_THE_TUNNEL: Duration = Duration::from_secs(2);

/// Names that may wait, at least: members may come to those of the start, of whom each has a place.
const LEAST_PLACES: usize = 64;

/// A name to be looked up.
pub(super) struct Asked {
    pub(super) member: Member,
    pub(super) name: HostPort,
}

/// Addresses behind the name of a member, or why there are none.
pub(super) struct Found {
    pub(super) asked: Asked,
    pub(super) addresses: Result<Vec<SocketAddr>, String>,
}

/// What is found while no packet goes into the tunnel yet.
pub(super) fn before_the_tunnel(settings: &Settings) -> Result<Vec<Found>, OverlayError> {
    let members = settings.members.get();
    let names = members.iter().filter_map(|(member, m)| match m.endpoint.clone()? {
        Endpoint::Name(name) => Some(Asked { member: *member, name }),
        Endpoint::Address(_) => None,
    });
    let names: Vec<Asked> = names.collect();
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let (sender, found) = sync_channel(names.len());
    let begin = kernel::now();
    let listen = settings.listen;
    spawn(move || {
        // Nobody hears the rest.
        let _ = names.into_iter().try_for_each(|asked| sender.send(look_up(asked, listen)));
    })?;
    let mut all = Vec::new();
    while let Ok(one) = found.recv_timeout(BEFORE_THE_TUNNEL.saturating_sub(kernel::now().saturating_since(begin))) {
        all.push(one);
    }
    Ok(all)
}

/// Starts the thread. It ends when the member has, once the lookup is over that it may be in.
pub(super) fn start(settings: &Settings, inputs: SyncSender<Input>) -> Result<SyncSender<Asked>, OverlayError> {
    let (sender, asked) = sync_channel(settings.members.get().len().max(LEAST_PLACES));
    let listen = settings.listen;
    spawn(move || {
        // Nobody hears any more.
        let _ = asked.into_iter().try_for_each(|asked| inputs.send(Input::Found(look_up(asked, listen))));
    })?;
    Ok(sender)
}

fn spawn(work: impl FnOnce() + Send + 'static) -> Result<(), OverlayError> {
    let thread = std::thread::Builder::new().name("overlay-names".to_owned()).spawn(work);
    thread.map(drop).map_err(OverlayError::io("starting overlay-names"))
}

fn look_up(asked: Asked, listen: SocketAddr) -> Found {
    let addresses = addresses(&asked.name, listen);
    Found { asked, addresses }
}

/// Those to which the socket can send, in the order in which the host prefers them (RFC 6724).
fn addresses(name: &HostPort, listen: SocketAddr) -> Result<Vec<SocketAddr>, String> {
    if let Some(with_device) = device_and_scope(name) {
        return with_device.map(|address| vec![address]);
    }
    let found: Vec<SocketAddr> = (&*name.host, name.port).to_socket_addrs().map_err(|e| e.to_string())?.collect();
    // A socket for any address of IPv6 is one for IPv4, too.
    let takes_both = listen.ip() == IpAddr::from(Ipv6Addr::UNSPECIFIED);
    let is_usable = |a: &&SocketAddr| takes_both || a.is_ipv4() == listen.is_ipv4();
    let usable: Vec<SocketAddr> = found.iter().filter(is_usable).copied().collect();
    if usable.is_empty() && !found.is_empty() {
        let family = if listen.is_ipv4() { "IPv6" } else { "IPv4" };
        return Err(format!("it has addresses of {family} alone, to which {} (`listen`) cannot send", listen.ip()));
    }
    Ok(usable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_the_addresses_that_the_socket_can_send_to() {
        let name = |host: &str| HostPort { host: host.to_owned(), port: 7 };
        let at = |listen: &str| addresses(&name("localhost"), SocketAddr::new(listen.parse().unwrap(), 5460));
        // RFC 6761, section 6.3: it is this host, and is asked nobody else.
        assert_eq!(at("0.0.0.0").unwrap(), ["127.0.0.1:7".parse().unwrap()]);
        assert!(at("::").unwrap().iter().all(|a| a.ip().is_loopback() && a.port() == 7));
        assert!(at("::").unwrap().contains(&"127.0.0.1:7".parse().unwrap()));
        match at("2001:db8::1") {
            Ok(found) => assert!(found.iter().all(SocketAddr::is_ipv6)),
            Err(why) => assert!(why.contains("of IPv4 alone"), "{why}"),
        }
        // Longer than any label (RFC 1035, section 2.3.4), so that nobody is asked.
        assert!(addresses(&name(&format!("{}.test", "a".repeat(64))), "[::]:7".parse().unwrap()).is_err());
    }
}
