//! Proxy between client and server that closes all connections at once, as the death of a process does.

use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use testbed::Served;

use crate::LOCAL;

/// Forwards connections to a server until they are cut.
pub(crate) struct Proxy {
    port: u16,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Proxy {
    pub(crate) fn to(served: &Served) -> Self {
        let listener = TcpListener::bind((LOCAL, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let open: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
        let (server, kept) = (served.port(), Arc::clone(&open));
        // The thread ends with the process; it waits for further connections.
        thread::spawn(move || {
            for client in listener.incoming() {
                let pair = client.and_then(|c| Ok((c, TcpStream::connect((LOCAL, server))?)));
                let Ok((client, upstream)) = pair else { return };
                for (from, to) in [(&client, &upstream), (&upstream, &client)] {
                    let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    thread::spawn(move || {
                        let _ = io::copy(&mut from, &mut to);
                        let _ = to.shutdown(Shutdown::Write);
                    });
                }
                kept.lock().unwrap().extend([client, upstream]);
            }
        });
        Self { port, open }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Closes all connections towards both ends.
    pub(crate) fn cut(&self) {
        self.cut_after(0);
    }

    /// Closes all connections except the first one, the control connection of a test.
    pub(crate) fn cut_data(&self) {
        self.cut_after(1);
    }

    fn cut_after(&self, first: usize) {
        for stream in self.open.lock().unwrap().iter().skip(2 * first) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}
