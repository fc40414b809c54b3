use std::net::SocketAddr;
use std::sync::Arc;

use kernel::{KernelError, Op};
use results::TestPlan;

use super::admission::Proofs;
use super::{Traffic, UdpStream};
use crate::load::stream_numbers;

/// Parameters to open a session's streams after the client has validated all of them.
#[derive(Debug)]
pub(crate) struct ServerStreams {
    /// Identifier of the session.
    pub(crate) name: [u8; 8],
    /// Local address of the session, with the server's port.
    pub(crate) local: SocketAddr,
    pub(crate) proofs: Arc<Proofs>,
}

impl ServerStreams {
    /// Opens one socket for each validated stream of the plan, on the server's port and connected to the validated
    /// address. The kernel then delivers only this peer's datagrams to it, and sends to no other address.
    ///
    /// # Errors
    /// No free descriptors, or the address no longer belongs to this host.
    pub(crate) fn open(&self, plan: &TestPlan) -> Result<Vec<UdpStream>, KernelError> {
        let proven = self.proofs.all();
        stream_numbers(plan)
            .into_iter()
            .filter_map(|(stream, direction)| Some((stream, direction, *proven.get(&stream)?)))
            .map(|(stream, direction, client)| {
                let socket = kernel::udp_socket(self.local, true, super::buffer(plan), plan.dscp)?;
                let e = |source| KernelError::new(Op::Connect, client, source);
                socket.connect(client).map_err(e)?;
                socket.set_nonblocking(true).map_err(e)?;
                // Between bind and connect, the socket accepted datagrams from any address.
                super::drain(&socket);
                let token = wire::stream_token(self.name, stream);
                Ok(UdpStream { stream, direction, socket, token, traffic: Traffic::new(plan, stream) })
            })
            .collect()
    }
}
