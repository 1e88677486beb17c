//! Free ports.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::{Ipv4Addr, TcpListener};

/// Above what services are registered for in practice.
const LOWEST: u16 = 10_240;

/// Where Linux begins to take ports for outgoing connections, unless told otherwise.
const EPHEMERAL: u16 = 32_768;

/// Ports tried below the ephemeral ones.
const TRIES: usize = 100;

/// A port of 127.0.0.1 that is free at this moment; whoever uses it must be ready to find it taken after all.
///
/// Preferably one that no outgoing connection gets: a server that is down for a while must have its port back, and a
/// client that knocks at a closed port of that range can even be connected to itself.
pub(crate) fn free() -> u16 {
    let end = ephemeral().max(LOWEST + 1);
    (0..TRIES).map(|_| LOWEST + random() % (end - LOWEST)).find(|port| is_free(*port)).unwrap_or_else(any)
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// Whatever the system gives.
fn any() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("127.0.0.1 has a free port");
    listener.local_addr().expect("a listener has an address").port()
}

fn ephemeral() -> u16 {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    range.split_whitespace().next().and_then(|first| first.parse().ok()).unwrap_or(EPHEMERAL)
}

/// Seeded by the system, differently for each call.
pub(crate) fn random() -> u16 {
    u16::try_from(RandomState::new().hash_one(()) >> 48).expect("16 bits are left")
}
