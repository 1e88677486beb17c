//! A server that dies while it commits, again and again, under a store that stays open.

use lockkeeper_testbed::{Postgres, StopMode};

use crate::tools::{blocking, open};
use crate::writers::Writers;

const ROUNDS: usize = 10;
const WRITERS: usize = 16;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_acknowledged_commit_outlives_the_server() {
    let mut server = blocking(Postgres::start).await;
    let store = open(&server.url()).await;
    let writers = Writers::start(&store, WRITERS);
    for round in 0..ROUNDS {
        // Another place in the work each time.
        writers.progress(20 + 7 * round).await;
        server = blocking(move || {
            if round % 2 == 0 {
                server.kill()
            } else {
                server.stop(StopMode::Immediate)
            }
            server.restart();
            server
        })
        .await;
    }
    writers.progress(100).await;
    assert!(writers.unknown() > 0, "no commit was under way in {ROUNDS} deaths");
    writers.check().await;
}
