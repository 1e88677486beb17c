//! A bound on connections: each costs a file descriptor and a buffer, asked or idle.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum_server::accept::Accept;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Lets in so many connections at once; those beyond are closed, and their clients try again.
#[derive(Clone, Debug)]
pub(crate) struct Bounded {
    places: Arc<Semaphore>,
}

/// A connection that holds its place until it is closed.
#[derive(Debug)]
pub(crate) struct Placed {
    stream: TcpStream,
    _place: OwnedSemaphorePermit,
}

impl Bounded {
    pub(crate) fn new(connections_max: usize) -> Self {
        Self { places: Arc::new(Semaphore::new(connections_max)) }
    }

    fn place(&self, stream: TcpStream) -> io::Result<Placed> {
        let place = self.places.clone().try_acquire_owned().map_err(|_| io::Error::other("too many connections"))?;
        // An answer is one small write that somebody waits for.
        stream.set_nodelay(true)?;
        Ok(Placed { stream, _place: place })
    }
}

impl<S: Send + 'static> Accept<TcpStream, S> for Bounded {
    type Stream = Placed;
    type Service = S;
    type Future = Pin<Box<dyn Future<Output = io::Result<(Placed, S)>> + Send>>;

    fn accept(&self, stream: TcpStream, service: S) -> Self::Future {
        let placed = self.place(stream).map(|placed| (placed, service));
        Box::pin(std::future::ready(placed))
    }
}

impl AsyncRead for Placed {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Placed {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_connection_holds_its_place_until_it_is_closed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stream = || async { TcpStream::connect(address).await.unwrap() };
        let bounded = Bounded::new(1);
        let first = bounded.place(stream().await).expect("the first has a place");
        assert!(bounded.place(stream().await).is_err(), "one too many");
        drop(first);
        assert!(bounded.place(stream().await).is_ok(), "the place is free again");
    }
}
