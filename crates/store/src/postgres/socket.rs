//! The sockets under the connections: made here, so that it can be seen whether one is still open.
//!
//! The driver hears of a closed connection when its task next reads. Until then it would take a commit and lose it, and
//! nobody could say whether it was sent.

use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use socket2::{SockRef, Socket, TcpKeepalive};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_postgres::Config;
use tokio_postgres::config::Host;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    Tcp {
        /// To be looked up.
        host: String,
        port: u16,
        /// What its certificate is to name.
        name: String,
    },
    Unix(PathBuf),
}

/// One end of a connection, seen from beside.
#[derive(Debug)]
pub(super) struct Peephole(Socket);

impl Address {
    /// Those of a URL, in its order.
    pub(super) fn all(config: &Config) -> Vec<Self> {
        let count = config.get_hosts().len().max(config.get_hostaddrs().len());
        (0..count).filter_map(|place| Self::one(config, place)).collect()
    }

    fn one(config: &Config, place: usize) -> Option<Self> {
        let ports = config.get_ports();
        let port = ports.get(place).or_else(|| ports.first()).copied().unwrap_or(5432);
        let address = config.get_hostaddrs().get(place).map(ToString::to_string);
        match (config.get_hosts().get(place), address) {
            (Some(Host::Tcp(name)), address) => {
                Some(Self::Tcp { host: address.unwrap_or_else(|| name.clone()), port, name: name.clone() })
            }
            (Some(Host::Unix(folder)), _) => Some(Self::Unix(folder.join(format!(".s.PGSQL.{port}")))),
            (None, Some(address)) => Some(Self::Tcp { host: address.clone(), port, name: address }),
            (None, None) => None,
        }
    }

    /// For people.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Tcp { name, port, .. } if name.contains(':') => format!("[{name}]:{port}"),
            Self::Tcp { name, port, .. } => format!("{name}:{port}"),
            Self::Unix(path) => path.display().to_string(),
        }
    }
}

/// Connects to the first address of a host that answers; each has an equal part of the time.
pub(super) async fn tcp(
    config: &Config,
    host: &str,
    port: u16,
    bound: Duration,
) -> io::Result<(TcpStream, SocketAddr)> {
    let addresses: Vec<SocketAddr> = lookup_host((host, port)).await?.collect();
    let each = bound / u32::try_from(addresses.len().max(1)).unwrap_or(u32::MAX);
    let each = config.get_connect_timeout().map_or(each, |asked| each.min(*asked));
    let mut why = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in addresses {
        match timeout(each, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                prepare(config, &stream)?;
                return Ok((stream, address));
            }
            Ok(Err(error)) => why = error,
            Err(_) => why = io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {each:?}")),
        }
    }
    Err(why)
}

fn prepare(config: &Config, stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(config.get_tcp_user_timeout().copied())?;
    if config.get_keepalives() {
        let mut keepalive = TcpKeepalive::new().with_time(config.get_keepalives_idle());
        if let Some(interval) = config.get_keepalives_interval() {
            keepalive = keepalive.with_interval(interval);
        }
        #[cfg(not(windows))]
        if let Some(retries) = config.get_keepalives_retries() {
            keepalive = keepalive.with_retries(retries);
        }
        socket.set_tcp_keepalive(&keepalive)?;
    }
    Ok(())
}

impl Peephole {
    pub(super) fn of<'s, S>(stream: &'s S) -> io::Result<Self>
    where
        SockRef<'s>: From<&'s S>,
    {
        SockRef::from(stream).try_clone().map(Self)
    }

    /// Whether a connection at rest is open, and nothing has come over it: what a server says unasked is its farewell.
    pub(super) fn is_quiet(&self) -> bool {
        matches!(self.peek(), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Whether the other end has closed it.
    pub(super) fn is_over(&self) -> bool {
        let mut rest = [MaybeUninit::uninit(); 64];
        loop {
            match self.0.recv(&mut rest) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return error.kind() != io::ErrorKind::WouldBlock,
            }
        }
    }

    fn peek(&self) -> io::Result<usize> {
        self.0.peek(&mut [MaybeUninit::uninit(); 1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(url: &str) -> Vec<String> {
        Address::all(&url.parse().unwrap()).iter().map(Address::describe).collect()
    }

    #[test]
    fn every_host_of_a_url_has_its_port() {
        assert_eq!(addresses("postgres://a:1,b:2/db"), ["a:1", "b:2"]);
        assert_eq!(addresses("postgres://a,[::1]:7/db"), ["a:5432", "[::1]:7"]);
        assert_eq!(addresses("postgres://%2Frun%2Fpg:7/db"), ["/run/pg/.s.PGSQL.7"]);
        assert_eq!(addresses("postgres:///db?host=/run/pg&port=6"), ["/run/pg/.s.PGSQL.6"]);
        assert_eq!(addresses("postgres://a:1/db?hostaddr=10.0.0.1"), ["a:1"]);
    }

    #[tokio::test]
    async fn an_end_is_seen_before_it_is_read() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (client, _) = tcp(&Config::new(), "127.0.0.1", port, Duration::from_secs(5)).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        let peephole = Peephole::of(&client).unwrap();
        assert!(peephole.is_quiet() && !peephole.is_over());
        server.try_write(b"farewell").unwrap();
        assert!(!peephole.is_quiet() && !peephole.is_over(), "what was left is read");
        assert!(peephole.is_quiet());
        drop(server);
        assert!(!peephole.is_quiet() && peephole.is_over());
    }
}
