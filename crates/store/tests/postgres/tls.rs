//! Who may listen, and who may stand in between: `sslmode` as libpq means it.

use std::time::Duration;

use lockkeeper_store::{OnLocked, OpenError, Store};
use lockkeeper_testbed::Postgres;

use crate::tools::{LONG, blocking, database, key, must_commit, next, now, open, refused, version};

async fn why(url: &str) -> String {
    match refused(url).await {
        OpenError::NoDatabase { detail, .. } => detail,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_mode_trusts_whom_it_says() {
    let ((server, authority), (_other, stranger)) =
        blocking(|| (Postgres::start_with_tls(), Postgres::start_with_tls())).await;
    let url = |host: &str, rest: String| format!("postgres://postgres@{host}:{}/postgres?{rest}", server.port());
    let (authority, stranger) = (authority.display(), stranger.display());
    let mut expected = 0;
    for (host, rest) in [
        ("127.0.0.1", "sslmode=prefer".to_owned()),
        ("127.0.0.1", "sslmode=require".to_owned()),
        ("localhost", format!("sslmode=verify-full&sslrootcert={authority}")),
        ("127.0.0.1", format!("sslmode=verify-full&sslrootcert={authority}")),
        ("127.0.0.2", format!("sslmode=verify-ca&sslrootcert={authority}&hostaddr=127.0.0.1")),
        ("localhost", format!("sslmode=require&sslrootcert={authority}")),
    ] {
        let store = open(&url(host, rest)).await;
        must_commit(&store, next(&key("a"), expected)).await;
        expected += 1;
        assert_eq!(version(&store, &key("a")).await, expected);
        // A lock that is left in its wait is cancelled over a connection of its own, with TLS as well.
        let held = store.lock(&key("a"), &[], now(), OnLocked::GiveUp).await;
        let (store, again) = (&store, key("a"));
        let waiting = store.lock(&again, &[], now(), OnLocked::Wait(LONG));
        assert!(tokio::time::timeout(Duration::from_millis(50), waiting).await.is_err());
        drop(held);
        store.close().await;
    }
    let plain = why(&url("127.0.0.1", "sslmode=disable".to_owned())).await;
    assert!(plain.contains("no encryption"), "{plain}");
    for rest in [
        format!("sslmode=verify-ca&sslrootcert={stranger}"),
        format!("sslmode=verify-full&sslrootcert={stranger}"),
        format!("sslmode=require&sslrootcert={stranger}"),
        "sslmode=verify-full&sslrootcert=/no/such/file".to_owned(),
    ] {
        assert!(!why(&url("localhost", rest)).await.is_empty());
    }
    // The authority is right, the name is not.
    let misnamed =
        why(&url("wrong.example", format!("sslmode=verify-full&sslrootcert={authority}&hostaddr=127.0.0.1"))).await;
    assert!(misnamed.contains("wrong.example") || misnamed.contains("name"), "{misnamed}");
}

/// Nobody is sent a password, or a record, in the clear because the server has no TLS.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_asks_for_tls_gets_it_or_nothing() {
    let database = database().await;
    for mode in ["require", "verify-ca", "verify-full"] {
        let detail = why(&format!("{}?sslmode={mode}", database.url())).await;
        assert!(detail.contains("TLS") || detail.contains("authority"), "{mode}: {detail}");
    }
    let store = open(&format!("{}?sslmode=prefer", database.url())).await;
    must_commit(&store, next(&key("a"), 0)).await;
}
