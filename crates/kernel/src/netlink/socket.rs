use std::io;
use std::os::fd::AsRawFd;

use netlink_packet_core::{
    ErrorMessage, NLM_F_ACK, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
    NlasIterator,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::protocols::NETLINK_ROUTE;

use crate::option::set_int;

/// Maximum number of requests in one send. Their answers wait in the socket at the same time, each for about 1 kB of
/// its buffer, of which the kernel gives 208 KiB by default.
const BATCH_REQUESTS_MAX: usize = 64;
/// Receive buffer in bytes: the kernel fills at most 32 KiB at a time (NLMSG_GOODSIZE and its limit for dumps).
const RECEIVE_BUFFER_BYTES: usize = 64 * 1024;
/// Maximum number of attempts to read a list that changes while it is read (NLM_F_DUMP_INTR).
const ATTEMPTS_MAX: usize = 10;
/// Length of the header that an error repeats (struct nlmsghdr).
const HEADER_BYTES: usize = 16;
/// Types of messages that end an answer (linux/netlink.h).
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// Receive buffer that an error message takes, in bytes: below 2 KiB with the kernel's text and bookkeeping.
const ERROR_BUFFER_BYTES: usize = 2048;
/// Attribute of an error that holds the kernel's text (NLMSGERR_ATTR_MSG).
const MESSAGE_ATTRIBUTE: u16 = 1;

/// One request: a message and its flags in addition to NLM_F_REQUEST and NLM_F_ACK.
pub(super) struct Request {
    pub(super) message: RouteNetlinkMessage,
    pub(super) flags: u16,
}

/// A request as bytes, for messages that netlink-packet-route does not model.
pub(super) struct RawRequest {
    pub(super) kind: u16,
    pub(super) flags: u16,
    pub(super) body: Vec<u8>,
}

/// Type and body of an answer to a raw request.
pub(super) type RawAnswer = (u16, Vec<u8>);

/// A request that the kernel refused.
pub(super) struct Refused {
    /// Position of the request among those given.
    pub(super) at: usize,
    pub(super) source: io::Error,
}

/// Sends requests to the kernel and waits for the answers.
#[derive(Debug)]
pub(super) struct Conversation {
    socket: netlink_sys::Socket,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Conversation {
    pub(super) fn open() -> io::Result<Self> {
        Self::open_with(NETLINK_ROUTE)
    }

    /// Opens a socket of another netlink protocol than route netlink.
    pub(super) fn open_with(protocol: isize) -> io::Result<Self> {
        let socket = netlink_sys::Socket::new(protocol)?;
        socket.set_ext_ack(true)?;
        // Errors without a copy of the request: the sequence number identifies it.
        socket.set_cap_ack(true)?;
        Ok(Self { socket, sequence: 0, buffer: Vec::with_capacity(RECEIVE_BUFFER_BYTES) })
    }

    /// Carries out requests in order, many in one system call. All are tried; the result is the first refusal.
    pub(super) fn carry_out(&mut self, requests: Vec<Request>) -> Result<(), Refused> {
        let mut refused = None;
        let mut done = 0;
        let mut rest = requests.into_iter().peekable();
        while rest.peek().is_some() {
            let first = self.sequence.wrapping_add(1);
            let mut bytes = Vec::new();
            let mut count = 0_u32;
            for request in rest.by_ref().take(BATCH_REQUESTS_MAX) {
                self.append(&mut bytes, request.message, request.flags | NLM_F_ACK);
                count += 1;
            }
            let answer = self.send(&bytes).and_then(|()| self.acknowledgements(first, count));
            let failure = answer.unwrap_or_else(|source| Some((0, source)));
            if let (None, Some((at, source))) = (&refused, failure) {
                refused = Some(Refused { at: done + at, source });
            }
            done += count as usize;
        }
        refused.map_or(Ok(()), Err)
    }

    /// Carries out all requests in one system call: once it has started, the kernel processes all of them, even if
    /// this process is killed meanwhile. All are tried; the result is the first refusal.
    pub(super) fn carry_out_at_once(&mut self, requests: Vec<RawRequest>) -> Result<(), Refused> {
        let Some(last) = requests.len().checked_sub(1) else { return Ok(()) };
        let first = self.sequence.wrapping_add(1);
        let mut bytes = Vec::new();
        for (i, request) in requests.iter().enumerate() {
            // The kernel reports refusals unasked. The acknowledgement of the last request confirms that all are
            // done.
            let flags = if i == last { request.flags | NLM_F_ACK } else { request.flags };
            self.append_raw(&mut bytes, request.kind, flags, &request.body);
        }
        let answer = self.enlarge_buffers(bytes.len(), requests.len()).and_then(|()| self.send(&bytes));
        let refused = answer.and_then(|()| self.refusals_until(first, last));
        match refused {
            Ok(None) => Ok(()),
            Ok(Some((at, source))) => Err(Refused { at, source }),
            Err(source) => Err(Refused { at: 0, source }),
        }
    }

    /// Waits for the answer to the last request, and returns the first refusal with its position.
    fn refusals_until(&mut self, first: u32, last: usize) -> io::Result<Option<(usize, io::Error)>> {
        let mut refused = None;
        loop {
            for (header, payload) in self.receive_raw()? {
                let at = header.sequence.wrapping_sub(first) as usize;
                if header.kind != NLMSG_ERROR || at > last {
                    continue;
                }
                let code = payload.first_chunk().map_or(0, |code| i32::from_ne_bytes(*code));
                if code != 0 && refused.is_none() {
                    // The code is followed by the header of the request, then the kernel's text.
                    let message = payload.get(4 + HEADER_BYTES..).unwrap_or_default();
                    refused = Some((at, with_message(code, message)));
                }
                if at == last {
                    return Ok(refused);
                }
            }
        }
    }

    /// Enlarges the socket buffers for a send of `bytes` bytes and for the refusals of `requests` requests.
    fn enlarge_buffers(&self, bytes: usize, requests: usize) -> io::Result<()> {
        // The kernel reserves 32 bytes of the send buffer (netlink_sendmsg).
        let socket = socket2::SockRef::from(&self.socket);
        if socket.send_buffer_size()? < bytes + 64 {
            enlarge(&socket, libc::SO_SNDBUFFORCE, bytes).or_else(|_| socket.set_send_buffer_size(bytes))?;
        }
        let answers = requests.saturating_mul(ERROR_BUFFER_BYTES);
        if socket.recv_buffer_size()? < answers {
            enlarge(&socket, libc::SO_RCVBUFFORCE, answers).or_else(|_| socket.set_recv_buffer_size(answers))?;
        }
        Ok(())
    }

    /// Requests a list of objects that netlink-packet-route does not model: types and bodies of the answers.
    pub(super) fn list_raw(&mut self, request: &RawRequest) -> io::Result<Vec<RawAnswer>> {
        for _ in 0..ATTEMPTS_MAX {
            let mut bytes = Vec::new();
            self.append_raw(&mut bytes, request.kind, request.flags | NLM_F_DUMP, &request.body);
            self.send(&bytes)?;
            if let Some(found) = self.read_raw_list()? {
                return Ok(found);
            }
        }
        Err(io::Error::other(format!("the list changed during each of {ATTEMPTS_MAX} readings")))
    }

    /// Reads a list to its end; `None` if it changed meanwhile.
    fn read_raw_list(&mut self) -> io::Result<Option<Vec<RawAnswer>>> {
        let mut found = Vec::new();
        let mut consistent = true;
        loop {
            let sequence = self.sequence;
            for (header, payload) in self.receive_raw()?.into_iter().filter(|(h, _)| h.sequence == sequence) {
                consistent &= header.flags & NLM_F_DUMP_INTR == 0;
                let code = payload.first_chunk().map_or(0, |code| i32::from_ne_bytes(*code));
                match header.kind {
                    NLMSG_ERROR if code < 0 => {
                        return Err(with_message(code, payload.get(4 + HEADER_BYTES..).unwrap_or_default()));
                    }
                    NLMSG_DONE if code < 0 => return Err(with_message(code, payload.get(4..).unwrap_or_default())),
                    NLMSG_ERROR | NLMSG_DONE => return Ok(consistent.then_some(found)),
                    kind => found.push((kind, payload)),
                }
            }
        }
    }

    fn append_raw(&mut self, bytes: &mut Vec<u8>, kind: u16, flags: u16, body: &[u8]) {
        self.sequence = self.sequence.wrapping_add(1);
        bytes.extend(((HEADER_BYTES + body.len()) as u32).to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend((flags | NLM_F_REQUEST).to_ne_bytes());
        bytes.extend(self.sequence.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend(body);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
    }

    fn receive_raw(&mut self) -> io::Result<Vec<(RawHeader, Vec<u8>)>> {
        self.receive_bytes()?;
        split_raw(&self.buffer)
    }

    /// Requests one object.
    pub(super) fn ask(&mut self, message: RouteNetlinkMessage) -> io::Result<RouteNetlinkMessage> {
        let mut found = None;
        self.read(message, 0, |answer| found = Some(answer))?;
        found.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the kernel's answer is empty"))
    }

    /// Requests a list.
    pub(super) fn list(&mut self, message: &RouteNetlinkMessage) -> io::Result<Vec<RouteNetlinkMessage>> {
        for _ in 0..ATTEMPTS_MAX {
            let mut found = Vec::new();
            if self.read(message.clone(), NLM_F_DUMP, |answer| found.push(answer))? {
                return Ok(found);
            }
        }
        Err(io::Error::other(format!("the list changed during each of {ATTEMPTS_MAX} readings")))
    }

    /// Sends one query and passes on the answers until the kernel reports the end; false if the list changed
    /// meanwhile.
    fn read(
        &mut self,
        message: RouteNetlinkMessage,
        flags: u16,
        mut take: impl FnMut(RouteNetlinkMessage),
    ) -> io::Result<bool> {
        let mut bytes = Vec::new();
        // A list ends with NLMSG_DONE; a single object is followed by the acknowledgement.
        let end = if flags & NLM_F_DUMP == NLM_F_DUMP { 0 } else { NLM_F_ACK };
        self.append(&mut bytes, message, flags | end);
        self.send(&bytes)?;
        let sequence = self.sequence;
        let mut consistent = true;
        loop {
            for answer in self.receive()?.into_iter().filter(|m| m.header.sequence_number == sequence) {
                consistent &= answer.header.flags & NLM_F_DUMP_INTR == 0;
                match answer.payload {
                    NetlinkPayload::InnerMessage(inner) => take(inner),
                    NetlinkPayload::Error(e) => return refusal(&e).map_or(Ok(consistent), Err),
                    NetlinkPayload::Done(done) if done.code < 0 => {
                        return Err(with_message(done.code, &done.extended_ack));
                    }
                    NetlinkPayload::Done(_) => return Ok(consistent),
                    _ => {}
                }
            }
        }
    }

    fn append(&mut self, bytes: &mut Vec<u8>, message: RouteNetlinkMessage, flags: u16) {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        header.flags = flags | NLM_F_REQUEST;
        header.sequence_number = self.sequence;
        let mut packet = NetlinkMessage::new(header, NetlinkPayload::from(message));
        packet.finalize();
        let start = bytes.len();
        let end = start + packet.buffer_len();
        bytes.resize(end.next_multiple_of(4), 0);
        packet.serialize(&mut bytes[start..end]);
    }

    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let kernel = netlink_sys::SocketAddr::new(0, 0);
        match self.socket.send_to(bytes, &kernel, 0)? {
            sent if sent == bytes.len() => Ok(()),
            _ => Err(io::ErrorKind::WriteZero.into()),
        }
    }

    /// Waits for the answers to `count` requests from number `first` on, and returns the first refusal with its
    /// position.
    fn acknowledgements(&mut self, first: u32, count: u32) -> io::Result<Option<(usize, io::Error)>> {
        let mut refused = None;
        let mut seen = 0;
        while seen < count {
            for answer in self.receive()? {
                let at = answer.header.sequence_number.wrapping_sub(first);
                // Larger sequence numbers belong to a request that was abandoned.
                let NetlinkPayload::Error(e) = answer.payload else { continue };
                if at < count {
                    seen += 1;
                    refused = refused.or_else(|| refusal(&e).map(|source| (at as usize, source)));
                }
            }
        }
        Ok(refused)
    }

    fn receive(&mut self) -> io::Result<Vec<NetlinkMessage<RouteNetlinkMessage>>> {
        self.receive_bytes()?;
        split(&self.buffer)
    }

    fn receive_bytes(&mut self) -> io::Result<()> {
        self.buffer.clear();
        let length = loop {
            match self.socket.recv(&mut self.buffer, libc::MSG_TRUNC) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        if length > self.buffer.len() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the kernel's answer is longer than expected"));
        }
        Ok(())
    }
}

/// The fields of struct nlmsghdr that are used.
struct RawHeader {
    kind: u16,
    flags: u16,
    sequence: u32,
}

/// Splits a datagram without parsing its messages.
fn split_raw(mut bytes: &[u8]) -> io::Result<Vec<(RawHeader, Vec<u8>)>> {
    let damaged = || io::Error::new(io::ErrorKind::InvalidData, "the kernel's answer is not understood");
    let mut messages = Vec::new();
    while let Some(header) = bytes.first_chunk::<HEADER_BYTES>() {
        let [a, b, c, d, kind, kind_high, flags, flags_high, e, f, g, h, ..] = *header;
        let length = u32::from_ne_bytes([a, b, c, d]) as usize;
        let payload = bytes.get(HEADER_BYTES..length).ok_or_else(damaged)?;
        let header = RawHeader {
            kind: u16::from_ne_bytes([kind, kind_high]),
            flags: u16::from_ne_bytes([flags, flags_high]),
            sequence: u32::from_ne_bytes([e, f, g, h]),
        };
        messages.push((header, payload.to_vec()));
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    if bytes.is_empty() { Ok(messages) } else { Err(damaged()) }
}

/// Parses a datagram with both parsers and decodes its errors: for the fuzz target.
pub(crate) fn take_apart(bytes: &[u8]) {
    for (header, payload) in split_raw(bytes).unwrap_or_default() {
        let code = payload.first_chunk().map_or(0, |code| i32::from_ne_bytes(*code));
        with_message(code, payload.get(4 + HEADER_BYTES..).unwrap_or_default());
        let _ = tc::decode(header.kind, &payload);
    }
    for message in split(bytes).unwrap_or_default() {
        if let NetlinkPayload::Error(e) = &message.payload {
            refusal(e);
        }
    }
}

/// Sets a buffer size beyond the host's limits; needs CAP_NET_ADMIN.
fn enlarge(socket: &socket2::Socket, option: libc::c_int, bytes: usize) -> io::Result<()> {
    let value = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    set_int(socket.as_raw_fd(), libc::SOL_SOCKET, option, value)
}

/// Splits a datagram into its messages, each padded to four bytes.
fn split(mut bytes: &[u8]) -> io::Result<Vec<NetlinkMessage<RouteNetlinkMessage>>> {
    let mut messages = Vec::new();
    while !bytes.is_empty() {
        let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(bytes).map_err(|e| {
            io::Error::new(io::ErrorKind::InvalidData, format!("the kernel's answer is not understood: {e}"))
        })?;
        let length = (message.header.length as usize).max(HEADER_BYTES).next_multiple_of(4);
        bytes = bytes.get(length..).unwrap_or_default();
        messages.push(message);
    }
    Ok(messages)
}

/// The error in an error message; `None` for an acknowledgement.
fn refusal(message: &ErrorMessage) -> Option<io::Error> {
    let code = message.code?.get();
    Some(with_message(code, message.header.get(HEADER_BYTES..).unwrap_or_default()))
}

/// The error number together with the kernel's text, where there is any (NETLINK_EXT_ACK).
fn with_message(code: i32, attributes: &[u8]) -> io::Error {
    let plain = io::Error::from_raw_os_error(code.saturating_abs());
    let message =
        NlasIterator::new(attributes).filter_map(Result::ok).find(|a| a.kind() == MESSAGE_ATTRIBUTE).map(|a| {
            let text = String::from_utf8_lossy(a.value()).into_owned();
            text.trim_end_matches(['\0', '.']).to_owned()
        });
    match message {
        Some(message) if !message.is_empty() => io::Error::new(plain.kind(), format!("{plain}: {message}")),
        _ => plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_text_follows_the_error_number() {
        // A struct nlattr: length 4 + 8, type 1, then the text with its NUL.
        let message = [&[12, 0, 1, 0][..], b"no way\0\0"].concat();
        let e = with_message(-libc::EPERM, &message);
        assert_eq!(e.to_string(), "Operation not permitted (os error 1): no way");
        assert_eq!(e.kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn damaged_answers_are_errors() {
        assert!(split(&[1, 2, 3]).is_err());
        // A header whose length exceeds the datagram.
        assert!(split(&[255, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).is_err());
        assert_eq!(with_message(i32::MIN, &[4]).raw_os_error(), Some(i32::MAX));
    }
}
