//! Connections to the status page: so many at once, and none that says nothing for long, so that visitors take no more memory than there is for them.

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
}

/// A connection in its place.
pub(super) struct Visitor {
    stream: TcpStream,
    idle: Duration,
    /// When it is taken to have gone.
    gone: Pin<Box<Sleep>>,
    _place: Option<OwnedSemaphorePermit>,
}

impl Bounded {
    /// `most` at once, each closed after `idle` in which it moves nothing.
    pub(super) fn new(listener: TcpListener, most: usize, idle: Duration) -> Self {
        Self { listener, places: Arc::new(Semaphore::new(most)), idle }
    }
}

impl Listener for Bounded {
    type Io = Visitor;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Visitor, SocketAddr) {
        // Nobody closes the semaphore; who comes waits in the kernel's queue meanwhile.
        let place = Arc::clone(&self.places).acquire_owned().await.ok();
        let (stream, from) = Listener::accept(&mut self.listener).await;
        let gone = Box::pin(tokio::time::sleep(self.idle));
        (Visitor { stream, idle: self.idle, gone, _place: place }, from)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl Visitor {
    /// What came of an attempt, unless nothing has for too long.
    fn in_time<T>(&mut self, context: &mut Context<'_>, done: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if done.is_ready() {
            self.gone.as_mut().reset(Instant::now() + self.idle);
            return done;
        }
        self.gone.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Visitor {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, room: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let visitor = self.get_mut();
        let done = Pin::new(&mut visitor.stream).poll_read(context, room);
        visitor.in_time(context, done)
    }
}

impl AsyncWrite for Visitor {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let visitor = self.get_mut();
        let done = Pin::new(&mut visitor.stream).poll_write(context, bytes);
        visitor.in_time(context, done)
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

    async fn read(visitor: &mut Visitor, room: &mut [u8]) -> io::Result<usize> {
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
            let mut bounded = Bounded::new(listener, 2, idle);
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
}
