//! On a Redis server of its own.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_locks::{RedisLocks, RedisOptions};
use lockkeeper_testbed::Redis;

use crate::bench::Bench;

/// Starts an empty service.
pub(crate) async fn start() -> Bench {
    let server = tokio::task::spawn_blocking(Redis::start).await.expect("a server");
    let options = RedisOptions::parse(&server.url()).expect("a good url").with_max_ttl(Duration::from_secs(60));
    Bench::new(Arc::new(RedisLocks::open(options).await.expect("an empty server")), Box::new(server))
}
