//! Connections to the status page, limited in number, idle time and request time. A new connection beyond the limit
//! closes the one that has been idle longest.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep};

/// Limits of the connections of a listener.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// Maximum number of connections.
    pub(super) connections: usize,
    /// Time without traffic after which a connection is closed.
    pub(super) idle: Duration,
    /// Maximum time from the first byte of a request to its response.
    pub(super) request: Duration,
}

/// A listener with limits on its connections.
pub(super) struct LimitedListener {
    listener: TcpListener,
    slots: Arc<Slots>,
    limits: Limits,
}

/// A connection with a deadline for its current request or idle period.
pub(super) struct LimitedConnection<S = TcpStream> {
    stream: S,
    limits: Limits,
    /// Whether a request has started that is not answered.
    is_in_request: bool,
    deadline: Pin<Box<Sleep>>,
    slot: Option<Slot>,
}

/// The slots of a listener.
struct Slots {
    max: usize,
    used: Mutex<UsedSlots>,
}

#[derive(Default)]
struct UsedSlots {
    /// Number of the next activity of any connection.
    next: u64,
    /// Connections by the number of their last activity. Dropping the sender closes the connection.
    by_activity: BTreeMap<u64, oneshot::Sender<()>>,
}

/// The slot of a connection.
struct Slot {
    slots: Arc<Slots>,
    /// Number of its last activity.
    activity: u64,
    evicted: oneshot::Receiver<()>,
}

impl Slots {
    fn with<T>(&self, change: impl FnOnce(&mut UsedSlots) -> T) -> T {
        change(&mut self.used.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Acquires a slot. If all are in use, evicts the connection that has been idle longest.
    fn acquire(self: &Arc<Self>) -> Slot {
        let (sender, evicted) = oneshot::channel();
        let activity = self.with(|used| {
            while used.by_activity.len() >= self.max && used.by_activity.pop_first().is_some() {}
            used.insert(sender)
        });
        Slot { slots: Arc::clone(self), activity, evicted }
    }
}

impl UsedSlots {
    fn insert(&mut self, sender: oneshot::Sender<()>) -> u64 {
        let number = self.next;
        self.next += 1;
        self.by_activity.insert(number, sender);
        number
    }
}

impl Slot {
    /// Records traffic of the connection.
    fn note_activity(&mut self) {
        let now = self.slots.with(|used| {
            let sender = used.by_activity.remove(&self.activity)?;
            Some(used.insert(sender))
        });
        self.activity = now.unwrap_or(self.activity);
    }

    fn poll_evicted(&mut self, context: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.evicted).poll(context).map(drop)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.with(|used| used.by_activity.remove(&self.activity));
    }
}

impl LimitedListener {
    pub(super) fn new(listener: TcpListener, limits: Limits) -> Self {
        Self { listener, slots: Arc::new(Slots { max: limits.connections, used: Mutex::default() }), limits }
    }
}

impl Listener for LimitedListener {
    type Io = LimitedConnection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (LimitedConnection, SocketAddr) {
        let (stream, from) = Listener::accept(&mut self.listener).await;
        (LimitedConnection::new(stream, self.limits, Some(self.slots.acquire())), from)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl<S> LimitedConnection<S> {
    /// The deadline of the first request starts with the connection.
    fn new(stream: S, limits: Limits, slot: Option<Slot>) -> Self {
        let deadline = Box::pin(tokio::time::sleep(limits.request));
        Self { stream, limits, is_in_request: true, deadline, slot }
    }

    /// Result of an I/O attempt, or an error after the deadline or an eviction. `is_request`: whether the bytes belong
    /// to a request, not to a response.
    fn check_deadline<T>(
        &mut self,
        context: &mut Context<'_>,
        done: Poll<io::Result<T>>,
        is_request: bool,
    ) -> Poll<io::Result<T>> {
        if done.is_ready() {
            // Further bytes of the same request or response do not extend the deadline.
            if is_request != self.is_in_request {
                let timeout = if is_request { self.limits.request } else { self.limits.idle };
                self.deadline.as_mut().reset(Instant::now() + timeout);
            }
            self.is_in_request = is_request;
            if let Some(slot) = &mut self.slot {
                slot.note_activity();
            }
            return done;
        }
        if self.slot.as_mut().is_some_and(|slot| slot.poll_evicted(context).is_ready()) {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        self.deadline.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for LimitedConnection<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, room: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let connection = self.get_mut();
        let done = Pin::new(&mut connection.stream).poll_read(context, room);
        connection.check_deadline(context, done, true)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for LimitedConnection<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let connection = self.get_mut();
        let done = Pin::new(&mut connection.stream).poll_write(context, bytes);
        connection.check_deadline(context, done, false)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::ReadBuf;

    const LIMITS: Limits = Limits { connections: 1, idle: Duration::from_secs(75), request: Duration::from_secs(10) };

    async fn read<S: AsyncRead + Unpin>(connection: &mut LimitedConnection<S>, room: &mut [u8]) -> io::Result<usize> {
        let mut room = ReadBuf::new(room);
        std::future::poll_fn(|context| Pin::new(&mut *connection).poll_read(context, &mut room)).await?;
        Ok(room.filled().len())
    }

    #[test]
    fn a_new_connection_evicts_the_one_that_has_been_idle_longest() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let to = listener.local_addr().unwrap();
            let long = Duration::from_secs(600);
            let limits = Limits { connections: 2, idle: long, request: long };
            let mut listener = LimitedListener::new(listener, limits);
            let browsers = (0..4).map(|_| std::net::TcpStream::connect(to).unwrap()).collect::<Vec<_>>();
            let (mut first, _) = listener.accept().await;
            let (mut second, _) = listener.accept().await;
            let mut room = [0; 10];
            // The first connection sends a request, so the second one has been idle longer.
            io::Write::write_all(&mut &browsers[0], b"GET").unwrap();
            assert_eq!(read(&mut first, &mut room).await.unwrap(), 3);
            let (third, from) = listener.accept().await;
            assert_eq!(from, browsers[2].local_addr().unwrap());
            assert_eq!(read(&mut second, &mut room).await.unwrap_err().kind(), io::ErrorKind::ConnectionAborted);
            // The evicted connection has no slot, and the third one releases its own.
            drop((second, third));
            let (mut last, _) = listener.accept().await;
            for (connection, browser) in [(&mut first, &browsers[0]), (&mut last, &browsers[3])] {
                io::Write::write_all(&mut &*browser, b"GET").unwrap();
                assert_eq!(read(connection, &mut room).await.unwrap(), 3);
            }
        });
    }

    #[test]
    fn a_silent_connection_is_closed() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let (near, _far) = tokio::io::duplex(100);
            let mut connection = LimitedConnection::new(near, LIMITS, None);
            let start = Instant::now();
            assert_eq!(read(&mut connection, &mut [0; 10]).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
            assert_eq!(start.elapsed().as_secs(), 10);
        });
    }

    #[test]
    fn a_request_sent_byte_by_byte_does_not_extend_its_deadline() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let second = Duration::from_secs(1);
            let (near, mut far) = tokio::io::duplex(100);
            let mut connection = LimitedConnection::new(near, LIMITS, None);
            let mut room = [0; 10];
            for _ in 0..9 {
                tokio::io::AsyncWriteExt::write_all(&mut far, b"G").await.unwrap();
                assert_eq!(read(&mut connection, &mut room).await.unwrap(), 1);
                tokio::time::sleep(second).await;
            }
            let start = Instant::now();
            assert_eq!(read(&mut connection, &mut room).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
            assert_eq!(start.elapsed().as_secs(), 1);
            // After a response the connection may be idle before the next request.
            let (near, mut far) = tokio::io::duplex(100);
            let mut connection = LimitedConnection::new(near, LIMITS, None);
            for _ in 0..3 {
                tokio::io::AsyncWriteExt::write_all(&mut far, b"GET").await.unwrap();
                assert_eq!(read(&mut connection, &mut room).await.unwrap(), 3);
                tokio::io::AsyncWriteExt::write_all(&mut connection, b"200").await.unwrap();
                tokio::time::sleep(70 * second).await;
            }
        });
    }
}
