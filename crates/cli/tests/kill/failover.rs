//! A standby takes over under load: what its primary had acknowledged is there if it was synchronous; if not, what is
//! there is whole, and nothing happened twice.

use std::time::{Duration, Instant};

use lockkeeper_testbed::{Postgres, Replication};
use tempfile::TempDir;
use tokio::task::block_in_place;

use crate::load::{CLIENTS, Load};
use crate::support::api::Api;
use crate::support::seed::seed;
use crate::support::server::Server;
use crate::verdict::{Promise, Verdict, judge};
use crate::world;

/// Acknowledged commands before the failover, and after it.
const ACKNOWLEDGED: u64 = 600;

/// How many of those before are more than an asynchronous standby hears of.
const UNHEARD: u64 = 100;

/// How long nodes may take to work on the new primary.
const BACK_WITHIN: Duration = Duration::from_secs(20);

/// The URL of a database that is on either server, whichever takes changes.
pub(crate) fn either(one: &Postgres, other: &Postgres) -> String {
    format!(
        "postgres://postgres@127.0.0.1:{},127.0.0.1:{}/postgres?target_session_attrs=read-write",
        one.port(),
        other.port()
    )
}

/// Lets the standby hear of nothing more that its primary does.
pub(crate) fn part(primary: &Postgres, standby: &Postgres) {
    standby.execute("ALTER SYSTEM SET primary_conninfo = ''");
    standby.execute("SELECT pg_reload_conf()");
    until(primary, "SELECT count(*) = 0 FROM pg_stat_replication");
}

/// Asks the server until it says that it is so.
pub(crate) fn until(server: &Postgres, question: &str) {
    let begin = Instant::now();
    while server.execute(question) != "t" {
        assert!(begin.elapsed() < BACK_WITHIN, "not so after {BACK_WITHIN:?}: {question}");
    }
}

async fn failover_under_load(kind: Replication, promise: Promise) -> Verdict {
    let (seed, begin) = (seed(), Instant::now());
    let dir = TempDir::new().unwrap();
    let mut primary = block_in_place(Postgres::start);
    let standby = block_in_place(|| primary.standby(kind));
    let url = either(&primary, &standby);
    let nodes = block_in_place(|| [Server::start(dir.path(), &url), Server::start(dir.path(), &url)]);
    let urls: Vec<String> = nodes.iter().map(|node| node.url().to_owned()).collect();
    let api = Api::over(urls.clone());
    world::prepare(&api).await;

    let mut load = Load::begin(&api, seed, urls);
    load.more(ACKNOWLEDGED - UNHEARD).await;
    if promise == Promise::MayLose {
        block_in_place(|| part(&primary, &standby));
    }
    load.more(UNHEARD).await;
    let killed = Instant::now();
    block_in_place(|| {
        primary.kill();
        standby.promote();
    });
    load.more(1).await;
    let back = killed.elapsed();
    assert!(back < BACK_WITHIN, "nothing was acknowledged for {back:?} after the kill");
    load.more(ACKNOWLEDGED).await;
    let done = load.end().await;
    let verdict = judge(&api, &done, promise).await;
    assert!(verdict.unavailable > 0, "the failover was noticed: {verdict}");
    println!(
        "{kind:?} standby promoted under {CLIENTS} clients: {verdict}; back {back:.1?} after the kill, all {:.1?}",
        begin.elapsed()
    );
    verdict
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_synchronous_standby_has_all_that_was_acknowledged() {
    let verdict = failover_under_load(Replication::Synchronous, Promise::Kept).await;
    assert_eq!(verdict.lost, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_asynchronous_standby_may_lack_the_last_of_it_and_nothing_else() {
    let verdict = failover_under_load(Replication::Asynchronous, Promise::MayLose).await;
    assert!(verdict.lost > 0, "it had not heard of {UNHEARD}");
}
