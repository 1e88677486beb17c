//! With TLS. Authorities are those of the system, or of the file that `SSL_CERT_FILE` names; as the environment is that
//! of a process, what connects is this program once more.

use std::process::Command;
use std::time::Duration;

use lockkeeper_locks::{LockService as _, OpenRedisError, RedisLocks};
use lockkeeper_testbed::Redis;

use crate::bench::{LONG, ask, blocking, open, options};

/// Names the server for the child.
const URL: &str = "LOCKKEEPER_TEST_REDIS_TLS";

const THIS: &str = "tls::a_server_with_tls_is_believed_if_its_authority_is";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_tls_is_believed_if_its_authority_is() {
    if let Ok(url) = std::env::var(URL) {
        let service = open(&url).await;
        assert_eq!(service.describe(), url);
        service.acquire(&ask("ann", "r", LONG), Duration::ZERO).await.expect("free");
        return;
    }
    let (server, port, authority) = blocking(Redis::start_with_tls).await;
    let url = format!("rediss://localhost:{port}");
    let unknown = RedisLocks::open(options(&url)).await.expect_err("nobody knows its authority");
    assert!(matches!(unknown, OpenRedisError::Unavailable { .. }), "{unknown}");
    let mut child = Command::new(std::env::current_exe().expect("this program"));
    child.args(["--exact", THIS]).env(URL, &url).env("SSL_CERT_FILE", authority);
    let told = blocking(move || child.output().expect("it runs")).await;
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stdout));
    assert_eq!(server.command(&["EXISTS", "lockkeeper:{locks}:held:r"]).int(), Some(1));
}
