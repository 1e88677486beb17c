//! Locks on Redis: the server stays, and what keeps the locks goes.

use std::net::{Ipv4Addr, SocketAddr};

use lockkeeper_testbed::{Proxy, Redis};
use tokio::task::block_in_place;

use crate::overlap::{holder, successor};
use crate::runner::Runner;
use crate::support::server::{Server, Store};

/// A server whose locks are behind a network that can be broken.
fn begin() -> (Store, Redis, Proxy, Server) {
    let (store, redis) = (Store::new(), Redis::start());
    let proxy = Proxy::start(SocketAddr::from((Ipv4Addr::LOCALHOST, redis.port())));
    let locks = format!("redis://{}", proxy.address());
    let server = Server::start_with(store.dir(), &store.url(), &["--locks", &locks]);
    (store, redis, proxy, server)
}

fn lost_with(break_network: fn(&Proxy)) {
    let (store, _redis, proxy, server) = begin();
    let holder = holder(store.dir(), server.url());
    break_network(&proxy);
    // It is lost before the lock can be had again.
    let but = [holder.child.id()];
    holder.mark.await_gone(&but);
    let said = holder.end();
    assert!(said.failed(76).contains("lost: the lock r was lost"), "{said:?}");
    let refused = Runner::start(store.dir(), server.url(), &["r", "--nowait", "--", "true"]).end();
    assert_eq!(refused.code, Some(69), "never a pretended lock: {refused:?}");
    proxy.resume();
    successor(store.dir(), server.url());
}

#[tokio::test(flavor = "multi_thread")]
async fn cut_off() {
    block_in_place(|| lost_with(Proxy::cut));
}

#[tokio::test(flavor = "multi_thread")]
async fn stalled() {
    block_in_place(|| lost_with(Proxy::stall));
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_its_command_is_gone_before_the_next_one_starts() {
    block_in_place(|| {
        let (store, _redis, _proxy, server) = begin();
        let mut holder = holder(store.dir(), server.url());
        holder.child.kill().unwrap();
        successor(store.dir(), server.url());
        holder.mark.assert_gone();
    });
}
