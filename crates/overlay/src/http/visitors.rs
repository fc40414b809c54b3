//! Connections to the status page: so many at once, and none that says nothing for long, or that takes long to say it, so that visitors take no more memory than there is for them, and no place that others need.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep};

/// A listener that lets in no more than there are places for.
pub(super) struct Bounded {
    listener: TcpListener,
    places: Arc<Semaphore>,
    idle: Duration,
    patience: Duration,
}

/// A connection in its place.
pub(super) struct Visitor<S = TcpStream> {
    stream: S,
    idle: Duration,
    /// How long a question may take from its first byte to its answer.
    patience: Duration,
    /// A question has begun that is not answered.
    asks: bool,
    /// When it is taken to have gone.
    gone: Pin<Box<Sleep>>,
    _place: Option<OwnedSemaphorePermit>,
}

impl Bounded {
    /// `most` at once, each closed after `idle` in which it moves nothing, and where a question is not answered `patience` after it began.
    pub(super) fn new(listener: TcpListener, most: usize, idle: Duration, patience: Duration) -> Self {
        Self { listener, places: Arc::new(Semaphore::new(most)), idle, patience }
    }
}

impl Listener for Bounded {
    type Io = Visitor;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Visitor, SocketAddr) {
        // Nobody closes the semaphore; who comes waits in the kernel's queue meanwhile.
        let place = Arc::clone(&self.places).acquire_owned().await.ok();
        let (stream, from) = Listener::accept(&mut self.listener).await;
        (Visitor::new(stream, self.idle, self.patience, place), from)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl<S> Visitor<S> {
    fn new(stream: S, idle: Duration, patience: Duration, place: Option<OwnedSemaphorePermit>) -> Self {
        // Who comes has something to ask.
        let gone = Box::pin(tokio::time::sleep(patience));
        Self { stream, idle, patience, asks: true, gone, _place: place }
    }

    /// What came of an attempt, unless nothing has for too long. `asks`: whether what is moved belongs to a question.
    fn in_time<T>(&mut self, context: &mut Context<'_>, done: Poll<io::Result<T>>, asks: bool) -> Poll<io::Result<T>> {
        if done.is_ready() {
            // The bytes of a question, and of its answer, do not give it more time.
            if asks != self.asks {
                self.gone.as_mut().reset(Instant::now() + if asks { self.patience } else { self.idle });
            }
            self.asks = asks;
            return done;
        }
        self.gone.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Visitor<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, room: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let visitor = self.get_mut();
        let done = Pin::new(&mut visitor.stream).poll_read(context, room);
        visitor.in_time(context, done, true)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Visitor<S> {
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

    async fn read<S: AsyncRead + Unpin>(visitor: &mut Visitor<S>, room: &mut [u8]) -> io::Result<usize> {
        let mut room = ReadBuf::new(room);
        std::future::poll_fn(|context| Pin::new(&mut *visitor).poll_read(context, &mut room)).await?;
        Ok(room.filled().len())
    }

    #[test]
    fn who_finds_no_place_waits_until_one_goes_or_says_nothing() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let to = listener.local_addr().unwrap();
            let idle = Duration::from_millis(50);
            let mut bounded = Bounded::new(listener, 2, idle, idle);
            let browsers = (0..4).map(|_| std::net::TcpStream::connect(to).unwrap()).collect::<Vec<_>>();
            let (first, _) = bounded.accept().await;
            let (mut second, _) = bounded.accept().await;
            assert!(tokio::time::timeout(idle, bounded.accept()).await.is_err(), "all places are taken");
            drop(first);
            let (third, from) = bounded.accept().await;
            assert_eq!(from, browsers[2].local_addr().unwrap());
            let silent = read(&mut second, &mut [0; 10]).await.unwrap_err();
            assert_eq!(silent.kind(), io::ErrorKind::TimedOut);
            drop(second);
            drop(third);
            let (mut last, _) = bounded.accept().await;
            io::Write::write_all(&mut &browsers[3], b"GET").unwrap();
            assert_eq!(read(&mut last, &mut [0; 10]).await.unwrap(), 3);
        });
    }

    #[test]
    fn who_asks_byte_by_byte_has_no_more_time_than_others() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let second = Duration::from_secs(1);
            let (near, mut far) = tokio::io::duplex(100);
            let mut visitor = Visitor::new(near, 75 * second, 10 * second, None);
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
            let mut visitor = Visitor::new(near, 75 * second, 10 * second, None);
            for _ in 0..3 {
                tokio::io::AsyncWriteExt::write_all(&mut far, b"GET").await.unwrap();
                assert_eq!(read(&mut visitor, &mut room).await.unwrap(), 3);
                tokio::io::AsyncWriteExt::write_all(&mut visitor, b"200").await.unwrap();
                tokio::time::sleep(70 * second).await;
            }
        });
    }
}
