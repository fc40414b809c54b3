//! Connections to the status page: a maximum number, of which the one that has been idle longest makes room for a new
//! one, and a maximum time of silence and of a request.

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

/// A listener with a maximum number of connections.
pub(super) struct Bounded {
    listener: TcpListener,
    permits: Arc<QueuePermits>,
    idle: Duration,
    patience: Duration,
}

/// A connection in its place.
pub(super) struct LimitedConnection<S = TcpStream> {
    stream: S,
    idle: Duration,
    /// How long a question may take from its first byte to its answer.
    patience: Duration,
    /// A question has begun that is not answered.
    asks: bool,
    /// When it is taken to have gone.
    gone: Pin<Box<Sleep>>,
    place: Option<Permit>,
}

/// Places of connections, in the order of their last activity.
struct QueuePermits {
    most: usize,
    taken: Mutex<Verdict>,
}

#[derive(Default)]
struct Verdict {
    /// Number of the next activity.
    next: u64,
    /// By the number of the connection's last activity. Dropping the sender closes the connection.
    by_activity: BTreeMap<u64, oneshot::Sender<()>>,
}

/// Place of one connection.
struct Permit {
    permits: Arc<QueuePermits>,
    /// Number of its last activity.
    active: u64,
    evicted: oneshot::Receiver<()>,
}

impl QueuePermits {
    fn with<T>(&self, change: impl FnOnce(&mut Verdict) -> T) -> T {
        change(&mut self.taken.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes a place; if none is free, the connection that has been idle longest loses its own.
    fn take(self: &Arc<Self>) -> Permit {
        let (sender, evicted) = oneshot::channel();
        let active = self.with(|taken| {
            while taken.by_activity.len() >= self.most && taken.by_activity.pop_first().is_some() {}
            taken.insert(sender)
        });
        Permit { permits: Arc::clone(self), active, evicted }
    }
}

impl Verdict {
    fn insert(&mut self, sender: oneshot::Sender<()>) -> u64 {
        let number = self.next;
        self.next += 1;
        self.by_activity.insert(number, sender);
        number
    }
}

impl Permit {
    /// Notes that the connection has moved bytes.
    fn note_activity(&mut self) {
        let now = self.permits.with(|taken| {
            let sender = taken.by_activity.remove(&self.active)?;
            Some(taken.insert(sender))
        });
        self.active = now.unwrap_or(self.active);
    }

    fn poll_evicted(&mut self, context: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.evicted).poll(context).map(drop)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.permits.with(|taken| taken.by_activity.remove(&self.active));
    }
}

impl Bounded {
    /// `most` at once, each closed after `idle` in which it moves nothing, and where a question is not answered `patience` after it began.
    pub(super) fn new(listener: TcpListener, most: usize, idle: Duration, patience: Duration) -> Self {
        Self { listener, permits: Arc::new(QueuePermits { most, taken: Mutex::default() }), idle, patience }
    }
}

impl Listener for Bounded {
    type Io = LimitedConnection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (LimitedConnection, SocketAddr) {
        let (stream, from) = Listener::accept(&mut self.listener).await;
        (LimitedConnection::new(stream, self.idle, self.patience, Some(self.permits.take())), from)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl<S> LimitedConnection<S> {
    fn new(stream: S, idle: Duration, patience: Duration, place: Option<Permit>) -> Self {
        // Who comes has something to ask.
        let gone = Box::pin(tokio::time::sleep(patience));
        Self { stream, idle, patience, asks: true, gone, place }
    }

    /// What came of an attempt, unless nothing has for too long. `asks`: whether what is moved belongs to a question.
    fn in_time<T>(&mut self, context: &mut Context<'_>, done: Poll<io::Result<T>>, asks: bool) -> Poll<io::Result<T>> {
        if done.is_ready() {
            // The bytes of a question, and of its answer, do not give it more time.
            if asks != self.asks {
                self.gone.as_mut().reset(Instant::now() + if asks { self.patience } else { self.idle });
            }
            self.asks = asks;
            if let Some(place) = &mut self.place {
                place.note_activity();
            }
            return done;
        }
        if self.place.as_mut().is_some_and(|place| place.poll_evicted(context).is_ready()) {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        self.gone.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for LimitedConnection<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, room: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let visitor = self.get_mut();
        let done = Pin::new(&mut visitor.stream).poll_read(context, room);
        visitor.in_time(context, done, true)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for LimitedConnection<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let visitor = self.get_mut();
        let done = Pin::new(&mut visitor.stream).poll_write(context, bytes);
        visitor.in_time(context, done, false)
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

    async fn read<S: AsyncRead + Unpin>(visitor: &mut LimitedConnection<S>, room: &mut [u8]) -> io::Result<usize> {
        let mut room = ReadBuf::new(room);
        std::future::poll_fn(|context| Pin::new(&mut *visitor).poll_read(context, &mut room)).await?;
        Ok(room.filled().len())
    }

    #[test]
    fn a_new_connection_takes_the_place_of_the_one_that_has_been_idle_longest() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let to = listener.local_addr().unwrap();
            let long = Duration::from_secs(600);
            let mut bounded = Bounded::new(listener, 2, long, long);
            let browsers = (0..4).map(|_| std::net::TcpStream::connect(to).unwrap()).collect::<Vec<_>>();
            let (mut first, _) = bounded.accept().await;
            let (mut second, _) = bounded.accept().await;
            let mut room = [0; 10];
            // The first one asks, so the second one has been idle longer.
            io::Write::write_all(&mut &browsers[0], b"GET").unwrap();
            assert_eq!(read(&mut first, &mut room).await.unwrap(), 3);
            let (third, from) = bounded.accept().await;
            assert_eq!(from, browsers[2].local_addr().unwrap());
            assert_eq!(read(&mut second, &mut room).await.unwrap_err().kind(), io::ErrorKind::ConnectionAborted);
            // The closed connection held no place, and the third one gives its own back.
            drop((second, third));
            let (mut last, _) = bounded.accept().await;
            for (visitor, browser) in [(&mut first, &browsers[0]), (&mut last, &browsers[3])] {
                io::Write::write_all(&mut &*browser, b"GET").unwrap();
                assert_eq!(read(visitor, &mut room).await.unwrap(), 3);
            }
        });
    }

    #[test]
    fn a_connection_that_says_nothing_is_closed() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let (near, _far) = tokio::io::duplex(100);
            let mut visitor = LimitedConnection::new(near, Duration::from_secs(75), Duration::from_secs(10), None);
            let begin = Instant::now();
            assert_eq!(read(&mut visitor, &mut [0; 10]).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
            assert_eq!(begin.elapsed().as_secs(), 10);
        });
    }

    #[test]
    fn who_asks_byte_by_byte_has_no_more_time_than_others() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let second = Duration::from_secs(1);
            let (near, mut far) = tokio::io::duplex(100);
            let mut visitor = LimitedConnection::new(near, 75 * second, 10 * second, None);
            let mut room = [0; 10];
            for _ in 0..9 {
                tokio::io::AsyncWriteExt::write_all(&mut far, b"G").await.unwrap();
                assert_eq!(read(&mut visitor, &mut room).await.unwrap(), 1);
                tokio::time::sleep(second).await;
            }
            let begin = Instant::now();
            assert_eq!(read(&mut visitor, &mut room).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
            assert_eq!(begin.elapsed().as_secs(), 1);
            // Once it has its answer it may wait with the next question.
            let (near, mut far) = tokio::io::duplex(100);
            let mut visitor = LimitedConnection::new(near, 75 * second, 10 * second, None);
            for _ in 0..3 {
                tokio::io::AsyncWriteExt::write_all(&mut far, b"GET").await.unwrap();
                assert_eq!(read(&mut visitor, &mut room).await.unwrap(), 3);
                tokio::io::AsyncWriteExt::write_all(&mut visitor, b"200").await.unwrap();
                tokio::time::sleep(70 * second).await;
            }
        });
    }
}
