//! The server cannot be reached any more, while the lock is held (L13).

use lockkeeper_testbed::Proxy;
use tokio::task::block_in_place;

use crate::overlap::{TTL, holder, successor};
use crate::runner::{Runner, await_file};
use crate::support::server::Store;
use crate::support::world::{World, in_both_worlds};

fn proxy_of(address: &str) -> (Proxy, String) {
    let proxy = Proxy::start(address.parse().unwrap());
    let url = format!("http://{}", proxy.address());
    (proxy, url)
}

fn lost_with(world: &World, break_network: fn(&Proxy)) {
    let dir = world.store.dir();
    let (proxy, url) = proxy_of(world.node(0).address());
    let holder = holder(dir, &url);
    break_network(&proxy);
    successor(dir, world.node(1).url());
    let said = holder.end();
    assert!(said.failed(76).contains("lost: the lock r was lost"), "{said:?}");
}

async fn cut_off(world: World) {
    block_in_place(|| lost_with(&world, Proxy::cut));
}

async fn stalled(world: World) {
    block_in_place(|| lost_with(&world, Proxy::stall));
}

async fn deaf(world: World) {
    block_in_place(|| lost_with(&world, Proxy::hold_replies));
}

/// Broken connections that can be made again are no loss.
async fn interrupted(world: World) {
    block_in_place(|| {
        let dir = world.store.dir();
        let (proxy, url) = proxy_of(world.node(0).address());
        let script = "touch held; while [ ! -e go ]; do sleep 0.01; done; exit 5";
        let holder = Runner::script(dir, &url, &["r", "--ttl", TTL], script);
        await_file(&dir.join("held"));
        proxy.cut();
        proxy.resume();
        let before = proxy.connections();
        crate::runner::poll("a renewal on a new connection", || (proxy.connections() > before).then_some(()));
        std::fs::write(dir.join("go"), "").unwrap();
        assert_eq!(holder.end().code, Some(5));
    });
}

in_both_worlds!(cut_off, stalled, deaf, interrupted);

/// A new server on the same store goes on where the old one was.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_and_started_again_is_no_loss() {
    block_in_place(|| {
        let store = Store::new();
        let server = store.serve();
        let (proxy, url) = proxy_of(server.address());
        let script = "touch held; while [ ! -e go ]; do sleep 0.01; done; exit 5";
        let holder = Runner::script(store.dir(), &url, &["r", "--ttl", "9s"], script);
        await_file(&store.dir().join("held"));
        server.kill();
        let server = store.serve();
        proxy.retarget(server.address().parse().unwrap());
        let cli = server.cli();
        let expires = |cli: &crate::support::cli::Cli| {
            cli.run(&["lock", "ls", "-o", "json"]).json()["items"][0]["holders"][0]["expires_in_ms"].as_u64()
        };
        // Renewed, it has more time than before.
        let mut last = expires(&cli).unwrap();
        crate::runner::poll("a renewal", || {
            let now = expires(&cli).expect("it is held");
            let renewed = now > last;
            last = now;
            renewed.then_some(())
        });
        std::fs::write(store.dir().join("go"), "").unwrap();
        assert_eq!(holder.end().code, Some(5));
    });
}
