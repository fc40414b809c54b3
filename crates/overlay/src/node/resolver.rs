//! Name resolution for endpoints in threads of its own. An unreachable resolver takes half a minute to fail; neither
//! the member nor its shutdown waits.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use route::Member;

use super::Input;
use crate::OverlayError;
use crate::settings::{Endpoint, HostPort, Settings, device_and_scope};

/// Longest wait of a start for name resolution. Afterwards packets to a resolver in the subnets of a peer use the
/// tunnel.
const START_TIMEOUT: Duration = Duration::from_secs(2);

/// Minimum length of the request queue, which otherwise has one entry per configured member; members may join later.
const QUEUE_MIN: usize = 64;

/// A host name to resolve, and the member whose endpoint it is.
pub(super) struct LookupRequest {
    pub(super) member: Member,
    pub(super) name: HostPort,
}

/// Addresses of a host name, or the reason of the failure.
pub(super) struct LookupResult {
    pub(super) request: LookupRequest,
    pub(super) addresses: Result<Vec<SocketAddr>, String>,
}

/// Resolves the names of the settings while no packets use the tunnel; returns the results that arrive within
/// [`START_TIMEOUT`].
pub(super) fn resolve_before_tunnel(settings: &Settings) -> Result<Vec<LookupResult>, OverlayError> {
    let members = settings.members.get();
    let names = members.iter().filter_map(|(member, m)| match m.endpoint.clone()? {
        Endpoint::Name(name) => Some(LookupRequest { member: *member, name }),
        Endpoint::Address(_) => None,
    });
    let names: Vec<LookupRequest> = names.collect();
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let (sender, results) = sync_channel(names.len());
    let start = kernel::now();
    let listen = settings.listen;
    spawn(move || {
        // After the timeout the receiver is gone, and the rest is not resolved.
        let _ = names.into_iter().try_for_each(|request| sender.send(look_up(request, listen)));
    })?;
    let mut all = Vec::new();
    while let Ok(result) = results.recv_timeout(START_TIMEOUT.saturating_sub(kernel::now().saturating_since(start))) {
        all.push(result);
    }
    Ok(all)
}

/// Starts the resolver thread. It ends after the member, when its present lookup has finished.
pub(super) fn start(settings: &Settings, inputs: SyncSender<Input>) -> Result<SyncSender<LookupRequest>, OverlayError> {
    let (sender, requests) = sync_channel(settings.members.get().len().max(QUEUE_MIN));
    let listen = settings.listen;
    spawn(move || {
        // The receiver is gone when the member has ended.
        let _ = requests.into_iter().try_for_each(|request| inputs.send(Input::Resolved(look_up(request, listen))));
    })?;
    Ok(sender)
}

fn spawn(work: impl FnOnce() + Send + 'static) -> Result<(), OverlayError> {
    let thread = std::thread::Builder::new().name("overlay-names".to_owned()).spawn(work);
    thread.map(drop).map_err(OverlayError::io("starting overlay-names"))
}

fn look_up(request: LookupRequest, listen: SocketAddr) -> LookupResult {
    let addresses = addresses(&request.name, listen);
    LookupResult { request, addresses }
}

/// Addresses of a name that the socket can send to, in the host's order of preference (RFC 6724).
fn addresses(name: &HostPort, listen: SocketAddr) -> Result<Vec<SocketAddr>, String> {
    if let Some(with_device) = device_and_scope(name) {
        return with_device.map(|address| vec![address]);
    }
    let found: Vec<SocketAddr> = (&*name.host, name.port).to_socket_addrs().map_err(|e| e.to_string())?.collect();
    // A socket bound to the unspecified IPv6 address also serves IPv4.
    let is_dual_stack = listen.ip() == IpAddr::from(Ipv6Addr::UNSPECIFIED);
    let is_usable = |a: &&SocketAddr| is_dual_stack || a.is_ipv4() == listen.is_ipv4();
    let usable: Vec<SocketAddr> = found.iter().filter(is_usable).copied().collect();
    if usable.is_empty() && !found.is_empty() {
        let family = if listen.is_ipv4() { "IPv6" } else { "IPv4" };
        return Err(format!("it has only {family} addresses, to which `listen` = {} cannot send", listen.ip()));
    }
    Ok(usable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_resolve_to_the_addresses_that_the_socket_can_send_to() {
        let name = |host: &str| HostPort { host: host.to_owned(), port: 7 };
        let at = |listen: &str| addresses(&name("localhost"), SocketAddr::new(listen.parse().unwrap(), 5460));
        // RFC 6761, section 6.3: `localhost` is this host and needs no DNS query.
        assert_eq!(at("0.0.0.0").unwrap(), ["127.0.0.1:7".parse().unwrap()]);
        assert!(at("::").unwrap().iter().all(|a| a.ip().is_loopback() && a.port() == 7));
        assert!(at("::").unwrap().contains(&"127.0.0.1:7".parse().unwrap()));
        match at("2001:db8::1") {
            Ok(found) => assert!(found.iter().all(SocketAddr::is_ipv6)),
            Err(why) => assert!(why.contains("only IPv4 addresses"), "{why}"),
        }
        // The label is too long (RFC 1035, section 2.3.4), so no query is sent.
        assert!(addresses(&name(&format!("{}.test", "a".repeat(64))), "[::]:7".parse().unwrap()).is_err());
    }
}
