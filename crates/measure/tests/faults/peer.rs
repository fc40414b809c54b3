//! A scripted client, which executes only the parts of the protocol that a test needs.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use results::{Direction, TestPlan};
use testbed::Served;
use wire::{Frame, FrameReader, GREETING, HELLO, Message, SESSION_BYTES_MAX};

use crate::LOCAL;

/// Connection to the server after its greeting.
pub(crate) struct Peer {
    stream: TcpStream,
    frames: FrameReader,
    unread: Vec<u8>,
    /// All bytes received after the greeting.
    received: Vec<u8>,
}

impl Peer {
    pub(crate) fn connect(served: &Served) -> Self {
        let mut stream = TcpStream::connect((LOCAL, served.port())).unwrap();
        // Longer than any handshake timeout of the server, so that the server ends a read.
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut greeting = [0; GREETING.len()];
        stream.read_exact(&mut greeting).unwrap();
        assert_eq!(&greeting, GREETING);
        Self { stream, frames: FrameReader::new(SESSION_BYTES_MAX), unread: Vec::new(), received: Vec::new() }
    }

    /// Sends bytes. Returns `false` if the server has closed.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    pub(crate) fn send_message(&mut self, message: &Message) {
        assert!(self.send(&message.encode_frame().unwrap()));
    }

    /// Returns the next message, or `None` if the server has closed.
    pub(crate) fn receive(&mut self) -> Option<Message> {
        loop {
            while !self.unread.is_empty() {
                let taken = self.frames.feed(&self.unread);
                self.unread.drain(..taken);
                if let Some(Frame::Json(json)) = self.frames.next().unwrap() {
                    return Some(Message::decode(&json).unwrap());
                }
            }
            let mut chunk = [0; 4096];
            match self.stream.read(&mut chunk) {
                Ok(0) => return None,
                Ok(n) => {
                    self.unread.extend_from_slice(&chunk[..n]);
                    self.received.extend_from_slice(&chunk[..n]);
                }
                Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(e) => panic!("the server neither answers nor closes: {e}"),
            }
        }
    }

    /// All bytes that the server has sent after the greeting, as text.
    pub(crate) fn received(&self) -> String {
        String::from_utf8_lossy(&self.received).into_owned()
    }

    /// Time until the server closes.
    pub(crate) fn time_to_close(mut self) -> Duration {
        let start = Instant::now();
        let mut rest = [0; 4096];
        loop {
            match self.stream.read(&mut rest) {
                Ok(0) => return start.elapsed(),
                Ok(_) => {}
                Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => return start.elapsed(),
                Err(e) => panic!("the server does not close: {e}"),
            }
        }
    }

    /// Sends a hello, receives the challenge and requests a test.
    pub(crate) fn request(&mut self, plan: &TestPlan) -> Message {
        self.hello();
        self.send_message(&Message::Request { plan: plan.clone(), proof: None });
        self.receive().expect("the server closed without an answer")
    }

    pub(crate) fn hello(&mut self) {
        assert!(self.send(HELLO));
        self.send_message(&Message::Hello {
            version: wire::NATIVE_VERSION,
            software: "a test".to_owned(),
            nonce: [7; 16],
            fill: String::new(),
        });
        let answer = self.receive();
        assert!(matches!(answer, Some(Message::Challenge { .. })), "{answer:?}");
    }

    /// Requests to join a session, and returns the answer.
    pub(crate) fn join(&mut self, session: [u8; 8], stream: u32, direction: Direction) -> Option<Message> {
        assert!(self.send(HELLO));
        self.send_message(&Message::Join { session, stream, direction, proof: None });
        self.receive()
    }
}

/// Session identifier of an acceptance.
pub(crate) fn session(answer: &Message) -> [u8; 8] {
    let Message::Accept { session, .. } = answer else { panic!("not accepted: {answer:?}") };
    *session
}
