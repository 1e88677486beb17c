//! A pooler between clients and a server.

use std::fs;
use std::net::SocketAddr;

use crate::folder::Folder;
use crate::port;
use crate::postgres::Postgres;
use crate::process::{Process, tail};
use crate::programs;
use crate::wait::{WAIT_MAX, poll};

/// Connections to the server: few, so that clients share them.
const POOL: usize = 4;

/// Ports tried until one is free.
const PORTS_MAX: usize = 10;

/// A PgBouncer in transaction mode with a small pool, on a free port of 127.0.0.1; ended when dropped.
///
/// It knows every database of its server, and lets everybody in as `postgres`.
#[derive(Debug)]
pub struct PgBouncer {
    process: Process,
    port: u16,
    folder: Folder,
}

impl PgBouncer {
    /// Starts a PgBouncer in front of a server.
    #[must_use]
    pub fn start(server: &Postgres) -> Self {
        Self::start_with(server.address(), POOL)
    }

    /// Starts a PgBouncer in front of whatever listens there, with that many connections per database.
    ///
    /// # Panics
    /// It does not start.
    #[must_use]
    pub fn start_with(server: SocketAddr, pool: usize) -> Self {
        let folder = Folder::new();
        for _ in 0..PORTS_MAX {
            let port = port::free();
            configure(&folder, port, server, pool);
            if let Some(process) = try_start(&folder) {
                return Self { process, port, folder };
            }
        }
        panic!("no free port was found\n{}", tail(&folder.log()));
    }

    /// Where clients connect.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL of one of the server's databases, through the pool.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", tail(&self.folder.log()));
        }
        self.process.kill();
    }
}

fn configure(folder: &Folder, port: u16, server: SocketAddr, pool: usize) {
    let users = folder.work().join("users.txt");
    folder.write(&users, "\"postgres\" \"\"\n");
    let settings = format!(
        "[databases]\n* = host={} port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
         auth_type = trust\nauth_file = {}\npool_mode = transaction\ndefault_pool_size = {pool}\nmax_client_conn = 1000\n\
         ignore_startup_parameters = extra_float_digits\n\
         server_login_retry = 1\n",
        server.ip(),
        server.port(),
        users.display()
    );
    folder.write(&folder.work().join("pgbouncer.ini"), &settings);
}

/// Starts the process and waits until it accepts connections; None: the port is taken.
fn try_start(folder: &Folder) -> Option<Process> {
    let log = folder.log();
    // Of another try.
    let _none = fs::remove_file(&log);
    let mut command = folder.command(&programs::of_system("pgbouncer"));
    command.arg("pgbouncer.ini");
    let mut process = Process::start(command, &log);
    let has_said = |text| fs::read_to_string(&log).unwrap_or_default().contains(text);
    let started = poll(WAIT_MAX, || match process.ended() {
        Some(status) if !has_said("in use") => panic!("PgBouncer ended ({status})\n{}", tail(&log)),
        Some(_) => Some(false),
        None => has_said("process up").then_some(true),
    });
    started.unwrap_or_else(|| panic!("PgBouncer does not start\n{}", tail(&log))).then_some(process)
}
