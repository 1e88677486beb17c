//! One connection through a proxy: a client's, and the one to the server that belongs to it.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::spawn;
use std::time::{Duration, Instant};

use super::gate::{Direction, Gate};

/// Bytes read at once.
const CHUNK: usize = 16 * 1024;

/// Chunks that one direction holds before its sender has to wait.
const CHUNKS_MAX: usize = 4096;

/// How long the server may take to accept.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// Bytes, and when they arrived.
type Chunk = (Vec<u8>, Instant);

#[derive(Debug)]
pub(super) struct Connection {
    gate: Arc<Gate>,
    client: TcpStream,
    server: Mutex<Option<TcpStream>>,
    closed: AtomicBool,
}

impl Connection {
    /// Serves a client until it, or the server, or the proxy ends the connection.
    pub(super) fn serve(gate: Arc<Gate>, client: TcpStream, target: SocketAddr) -> Arc<Self> {
        // Without it the proxy would delay by itself.
        let _without = client.set_nodelay(true);
        let closed = AtomicBool::new(false);
        let connection = Arc::new(Self { gate, client, server: Mutex::new(None), closed });
        let its = connection.clone();
        spawn(move || its.requests(target));
        connection
    }

    /// Closes both sides; what has not passed yet is lost.
    pub(super) fn close(&self) {
        self.gate.close(&self.closed);
        self.close_client();
        if let Some(server) = &*self.server.lock().expect("nothing panics with the lock") {
            // An error means that it is closed already.
            let _closed = server.shutdown(Shutdown::Both);
        }
    }

    /// Closes the client's side. What the client has sent can still be read.
    pub(super) fn close_client(&self) {
        // An error means that it is closed already.
        let _closed = self.client.shutdown(Shutdown::Both);
    }

    /// Connects to the server once something may pass to it, and carries what the client sends.
    fn requests(self: &Arc<Self>, target: SocketAddr) {
        // Read at once, whatever the gate says: it must be here if the client's side is cut.
        let requests = read(self.client.try_clone());
        let Some(server) = self.connect(target) else { return self.close_client() };
        let its = self.clone();
        let replies = read(server.try_clone());
        spawn(move || {
            its.carry(&replies, Direction::ToClient, &its.client);
            its.close_client();
        });
        self.carry(&requests, Direction::ToServer, &server);
        let _closed = server.shutdown(Shutdown::Write);
    }

    fn connect(&self, target: SocketAddr) -> Option<TcpStream> {
        let passage = self.gate.pass(Direction::ToServer, Instant::now(), &self.closed)?;
        let server = TcpStream::connect_timeout(&target, CONNECT_MAX).ok()?;
        let _without = server.set_nodelay(true);
        *self.server.lock().expect("nothing panics with the lock") = Some(server.try_clone().ok()?);
        drop(passage);
        // Closed meanwhile: whoever did that may have found no server's side to close.
        if self.closed.load(Ordering::SeqCst) {
            self.close();
            return None;
        }
        Some(server)
    }

    /// Writes what arrives, when it may pass, up to the end; the end, too, must pass. For a receiver that is gone it is
    /// thrown away: the sender must not notice.
    fn carry(&self, chunks: &Receiver<Chunk>, direction: Direction, mut to: &TcpStream) {
        let mut gone = false;
        for (bytes, arrived) in chunks {
            if gone {
                continue;
            }
            let Some(_passage) = self.gate.pass(direction, arrived, &self.closed) else { return };
            gone = to.write_all(&bytes).is_err();
        }
        drop(self.gate.pass(direction, Instant::now(), &self.closed));
    }
}

/// Reads until the end of the stream.
fn read(stream: std::io::Result<TcpStream>) -> Receiver<Chunk> {
    let (sender, chunks) = sync_channel(CHUNKS_MAX);
    if let Ok(stream) = stream {
        spawn(move || read_into(stream, &sender));
    }
    chunks
}

fn read_into(mut stream: TcpStream, sender: &SyncSender<Chunk>) {
    let mut buffer = vec![0; CHUNK];
    // A connection that is lost ends like one that is closed.
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        if sender.send((buffer[..count].to_vec(), Instant::now())).is_err() {
            return;
        }
    }
}
