//! Asking a server to end what one of its sessions is at.
//!
//! The asker keeps its connection open until the server closes it: the server does so when it has told the session, and
//! before that the request could still meet what is sent to the session next. Besides, PgBouncer 1.18 (Debian 12) ends
//! as a whole if an asker leaves while it passes the request on; the driver's own way is to leave at once.

use std::future::{Ready, ready};
use std::io;
use std::net::SocketAddr;
#[cfg(unix)]
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::join;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, duplex};
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_postgres::{CancelToken, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::socket::Peephole;

/// How long whoever asks waits.
const ASK_WAIT: Duration = Duration::from_secs(2);

/// How long the connection is kept: longer than PgBouncer tries to pass the request on (`cancel_wait_timeout`, 10 s).
const KEEP: Duration = Duration::from_secs(15);

/// Between two looks whether it was closed.
const PAUSE: Duration = Duration::from_millis(1);

/// Where a session's server was reached.
#[derive(Clone, Debug)]
pub(super) enum Peer {
    /// And by which name.
    Tcp(SocketAddr, String),
    #[cfg(unix)]
    Unix(PathBuf),
}

/// Waits until the session was told, or the time for that is over.
pub(super) async fn ask(token: CancelToken, peer: Peer, tls: Option<MakeRustlsConnect>) {
    let (told, hears) = oneshot::channel();
    tokio::spawn(timeout(KEEP, async move {
        if let Some(connection) = send(&token, &peer, tls).await {
            while !connection.is_over() {
                sleep(PAUSE).await;
            }
        }
        let _left = told.send(());
    }));
    // Whatever came of it: the session is not used before it has answered.
    let _told = timeout(ASK_WAIT, hears).await;
}

/// The connection, over which the request was sent.
async fn send(token: &CancelToken, peer: &Peer, tls: Option<MakeRustlsConnect>) -> Option<Peephole> {
    match peer {
        Peer::Tcp(address, name) => {
            let stream = TcpStream::connect(address).await.ok()?;
            let connection = Peephole::of(&stream).ok()?;
            match tls {
                Some(tls) => token.cancel_query_raw(Staying(stream), Staying(by_name(&tls, name).ok()?)).await.ok()?,
                None => token.cancel_query_raw(Staying(stream), NoTls).await.ok()?,
            }
            Some(connection)
        }
        #[cfg(unix)]
        Peer::Unix(path) => {
            let stream = UnixStream::connect(path).await.ok()?;
            let connection = Peephole::of(&stream).ok()?;
            token.cancel_query_raw(Staying(stream), NoTls).await.ok()?;
            Some(connection)
        }
    }
}

/// TLS with a server of one name.
pub(super) type TlsByName = <MakeRustlsConnect as MakeTlsConnect<TcpStream>>::TlsConnect;

/// TLS with a server of that name.
pub(super) fn by_name(tls: &MakeRustlsConnect, name: &str) -> Result<TlsByName, String> {
    let made = MakeTlsConnect::<TcpStream>::make_tls_connect(&mut tls.clone(), name);
    made.map_err(|error| format!("no certificate can be for {name:?}: {error}"))
}

/// A stream, or what makes one, that does not tell the other side when it is shut down.
struct Staying<S>(S);

impl<S: AsyncRead + Unpin> AsyncRead for Staying<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Staying<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl<S: TlsStream + Unpin> TlsStream for Staying<S> {
    fn channel_binding(&self) -> ChannelBinding {
        self.0.channel_binding()
    }
}

impl TlsConnect<Staying<TcpStream>> for Staying<TlsByName> {
    type Stream = Staying<<TlsByName as TlsConnect<Staying<TcpStream>>>::Stream>;
    type Error = <TlsByName as TlsConnect<Staying<TcpStream>>>::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Stream, Self::Error>> + Send>>;

    fn connect(self, stream: Staying<TcpStream>) -> Self::Future {
        let connecting = TlsConnect::<Staying<TcpStream>>::connect(self.0, stream);
        Box::pin(async move { connecting.await.map(Staying) })
    }
}

/// Asks for TLS before it is begun (PostgreSQL manual, "Message Formats": SSLRequest).
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];

/// The process that a request to end something is addressed to: the driver tells it to nobody but the server, so it is
/// made to tell it to us.
pub(super) async fn process(token: &CancelToken) -> Option<i32> {
    let (ours, mut theirs) = duplex(64);
    let read = async {
        let mut head = [0; 8];
        theirs.read_exact(&mut head).await.ok()?;
        if head == SSL_REQUEST {
            theirs.write_all(b"S").await.ok()?;
            theirs.read_exact(&mut head).await.ok()?;
        }
        let mut process = [0; 4];
        theirs.read_exact(&mut process).await.ok()?;
        Some(i32::from_be_bytes(process))
    };
    let (_sent, process) = join(token.cancel_query_raw(Plain(ours), Plain(())), read).await;
    process
}

/// A stream that takes itself for an encrypted one, and what makes it so.
struct Plain<S>(S);

impl AsyncRead for Plain<DuplexStream> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Plain<DuplexStream> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

impl TlsStream for Plain<DuplexStream> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl TlsConnect<Plain<DuplexStream>> for Plain<()> {
    type Stream = Plain<DuplexStream>;
    type Error = io::Error;
    type Future = Ready<io::Result<Plain<DuplexStream>>>;

    fn connect(self, stream: Plain<DuplexStream>) -> Self::Future {
        ready(Ok(stream))
    }
}
