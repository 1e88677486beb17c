//! A network that can be broken.

mod connection;
mod gate;

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

use self::connection::Connection;
use self::gate::{Gate, Mode};
use crate::port;
use crate::wait::{WAIT_MAX, poll};

/// A TCP proxy on a free port of 127.0.0.1: what clients and server say passes through it, until it is told otherwise.
///
/// It is in one mode at a time; each of [`Self::cut`], [`Self::stall`], [`Self::hold_replies`], [`Self::hold_requests`]
/// and [`Self::resume`] replaces the one before, and has taken effect when it returns. The end of a connection passes,
/// or is held, like everything else that a side says.
#[derive(Debug)]
pub struct Proxy {
    shared: Arc<Shared>,
    address: SocketAddr,
    /// None: cut.
    acceptor: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Shared {
    gate: Arc<Gate>,
    target: Mutex<SocketAddr>,
    accepted: AtomicUsize,
    connections: Mutex<Vec<Weak<Connection>>>,
}

impl Proxy {
    /// Starts a proxy in front of a server. It connects to the server anew for each client.
    ///
    /// # Panics
    /// There is no free port.
    #[must_use]
    pub fn start(target: SocketAddr) -> Self {
        let listener = poll(WAIT_MAX, || TcpListener::bind((Ipv4Addr::LOCALHOST, port::free())).ok());
        let listener = listener.expect("127.0.0.1 has a free port");
        let address = listener.local_addr().expect("a listener has an address");
        let (target, connections) = (Mutex::new(target), Mutex::new(Vec::new()));
        let shared =
            Arc::new(Shared { gate: Arc::new(Gate::new()), target, accepted: AtomicUsize::new(0), connections });
        let acceptor = Mutex::new(Some(accept(shared.clone(), listener)));
        Self { shared, address, acceptor }
    }

    /// Where clients connect.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The port of [`Self::address`].
    #[must_use]
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Closes every connection on both sides, and refuses new ones. What was held is lost.
    ///
    /// # Panics
    /// Only if the proxy itself has panicked.
    pub fn cut(&self) {
        self.shared.gate.set_mode(Mode::Cut);
        if let Some(acceptor) = self.acceptor().take() {
            // It looks at the mode when somebody connects; an error means that it does so anyway.
            let _seen = TcpStream::connect_timeout(&self.address, WAIT_MAX);
            acceptor.join().expect("the proxy accepts");
        }
        self.shared.open().iter().for_each(|connection| connection.close());
    }

    /// Nothing passes any more, in neither direction. Connections stay open; new ones are accepted, and stall.
    pub fn stall(&self) {
        self.switch(Mode::Stall);
    }

    /// What clients send still arrives; what the server answers is kept back.
    pub fn hold_replies(&self) {
        self.switch(Mode::HoldReplies);
    }

    /// The server hears nothing more; what it still has to say passes.
    pub fn hold_requests(&self) {
        self.switch(Mode::HoldRequests);
    }

    /// Closes the clients' side of all connections. What clients have sent and the proxy holds it still holds: the
    /// server's side stays open, and [`Self::resume`] delivers it, followed by the end of the connection.
    pub fn cut_clients(&self) {
        self.shared.open().iter().for_each(|connection| connection.close_client());
    }

    /// Everything passes, first of all what was held.
    pub fn resume(&self) {
        self.switch(Mode::Pass);
    }

    /// Everything that arrives passes this much later, in each direction.
    pub fn delay(&self, each_way: Duration) {
        self.shared.gate.set_delay(each_way);
    }

    /// Connections of clients from now on go to another server.
    ///
    /// # Panics
    /// Only if the proxy itself has panicked.
    pub fn retarget(&self, target: SocketAddr) {
        *self.shared.target.lock().expect("nothing panics with the lock") = target;
    }

    /// How many connections of clients it has accepted so far.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    fn switch(&self, mode: Mode) {
        self.shared.gate.set_mode(mode);
        let mut acceptor = self.acceptor();
        if acceptor.is_none() {
            // Somebody else may have the port for a moment.
            let listener = poll(WAIT_MAX, || TcpListener::bind(self.address).ok());
            let listener = listener.unwrap_or_else(|| panic!("{} is taken", self.address));
            *acceptor = Some(accept(self.shared.clone(), listener));
        }
    }

    fn acceptor(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        self.acceptor.lock().expect("nothing panics with the lock")
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.cut();
    }
}

impl Shared {
    /// The connections that have not ended.
    fn open(&self) -> Vec<Arc<Connection>> {
        self.connections.lock().expect("nothing panics with the lock").iter().filter_map(Weak::upgrade).collect()
    }

    fn add(&self, client: TcpStream) {
        self.accepted.fetch_add(1, Ordering::SeqCst);
        let target = *self.target.lock().expect("nothing panics with the lock");
        let connection = Connection::serve(self.gate.clone(), client, target);
        let mut connections = self.connections.lock().expect("nothing panics with the lock");
        connections.retain(|known| known.strong_count() > 0);
        connections.push(Arc::downgrade(&connection));
    }
}

/// Accepts clients until the proxy is cut; then the listener is closed.
fn accept(shared: Arc<Shared>, listener: TcpListener) -> JoinHandle<()> {
    spawn(move || {
        for client in listener.incoming() {
            if shared.gate.mode() == Mode::Cut {
                return;
            }
            // A client that is gone already.
            let Ok(client) = client else { continue };
            shared.add(client);
        }
    })
}
