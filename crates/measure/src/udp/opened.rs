use std::net::SocketAddr;
use std::sync::Arc;

use kernel::{KernelError, Op};
use results::TestPlan;

use super::admission::Proofs;
use super::{Traffic, UdpStream};
use crate::load::stream_numbers;

/// What the server needs to open a session's streams once the client says that all are proven.
#[derive(Debug)]
pub(crate) struct ServerStreams {
    /// The session.
    pub(crate) name: [u8; 8],
    /// The address of this host that the client reached, and the server's port.
    pub(crate) local: SocketAddr,
    pub(crate) proofs: Arc<Proofs>,
}

impl ServerStreams {
    /// One socket for each proven stream of the plan, on the server's port and connected to the proven address: the kernel
    /// then gives it this peer's datagrams and nobody else's, and sends to no other address.
    ///
    /// # Errors
    /// No descriptors left, or the address is no longer this host's.
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
                // Between bind and connect it was open to all.
                super::drain(&socket);
                let token = wire::stream_token(self.name, stream);
                Ok(UdpStream { stream, direction, socket, token, traffic: Traffic::new(plan, stream) })
            })
            .collect()
    }
}
