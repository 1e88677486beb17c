//! Which servers are taken, and what is said of the others; what an operation costs.

use std::time::{Duration, Instant};

use lockkeeper_locks::{
    AcquireError, Ask, Claim, LeaseId, LockService as _, Mode, OpenRedisError, RedisLocks, RedisOptions, Release,
};
use lockkeeper_testbed::Redis;

use crate::bench::{LONG, ask, blocking, open, options, server, until};

async fn refused(arguments: &'static [&'static str]) -> String {
    let server = blocking(move || Redis::start_with(arguments)).await;
    match RedisLocks::open(options(&server.url())).await {
        Err(error @ OpenRedisError::Unfit { .. }) => error.to_string(),
        other => panic!("{arguments:?} is taken: {other:?}"),
    }
}

/// L16: a server that may throw locks away is refused at the start, with what to do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_may_throw_locks_away_is_refused() {
    for policy in ["allkeys-lru", "allkeys-random", "volatile-lru", "volatile-ttl"] {
        let arguments: &'static [&'static str] = Box::leak(Box::new(["--maxmemory-policy", policy]));
        let told = refused(arguments).await;
        assert!(told.contains(policy) && told.contains("set it to `noeviction`"), "{told}");
    }
}

/// L16: and when it becomes one later it gets no more of them, and keeps those that it has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_becomes_one_gets_no_new_leases() {
    let server = server().await;
    let service = open(&server.url()).await;
    let (ann, bob) = (ask("ann", "r", LONG), ask("bob", "s", LONG));
    for held in [&ann, &bob] {
        service.acquire(held, Duration::ZERO).await.expect("free");
    }
    server.command(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lfu"]);
    let told = service.ping().await.expect_err("it may lose locks").0;
    assert!(told.contains("allkeys-lfu"), "{told}");
    for reconnected in [false, true] {
        if reconnected {
            server.command(&["CLIENT", "KILL", "TYPE", "pubsub"]);
            server.command(&["CLIENT", "KILL", "TYPE", "normal"]);
            until(|| async { service.renew(ann.lease()).await.ok() }).await;
        }
        match service.acquire(&ask("cid", "t", LONG), Duration::ZERO).await {
            Err(AcquireError::Unavailable(told)) => {
                assert!(told.contains("allkeys-lfu") && told.contains("set it to `noeviction`"), "{told}");
            }
            other => panic!("{other:?}"),
        }
        service.renew(ann.lease()).await.expect("it goes on");
    }
    assert_eq!(service.release(ann.lease(), true).await, Ok(Release::Released));
    server.command(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    service.ping().await.expect("a good server again");
    service.acquire(&ask("cid", "t", LONG), Duration::ZERO).await.expect("free");
    service.renew(bob.lease()).await.expect("nothing was lost");
}

/// Whoever can do without locks for a while starts without them, and gets them once the server is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_not_there_yet_is_met_later() {
    let mut server = server().await;
    server.kill();
    let service = RedisLocks::open_lazily(options(&server.url())).await.expect("it is met later");
    let refused = service.acquire(&ask("ann", "r", LONG), Duration::ZERO).await;
    assert!(matches!(refused, Err(AcquireError::Unavailable(_))), "{refused:?}");
    service.ping().await.expect_err("nobody is there");
    let _server = blocking(move || {
        server.restart();
        server
    })
    .await;
    until(|| async { service.acquire(&ask("ann", "r", LONG), LONG).await.ok() }).await;
}

/// Waiting does not help where somebody has to change something.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_unfit_is_refused_at_once() {
    let server = blocking(|| Redis::start_with(&["--maxmemory-policy", "allkeys-lru"])).await;
    let told = RedisLocks::open_lazily(options(&server.url())).await.expect_err("it may lose locks");
    assert!(matches!(&told, OpenRedisError::Unfit { detail, .. } if detail.contains("noeviction")), "{told}");
    let keys = server.command(&["KEYS", "*"]).texts().expect("a list");
    assert!(keys.is_empty(), "nothing was written: {keys:?}");
    server.command(&["CONFIG", "SET", "requirepass", "secret-1"]);
    for password in ["", ":secret-2@"] {
        let url = format!("redis://{password}{}", server.address());
        let told = RedisLocks::open_lazily(options(&url)).await.expect_err("another password");
        assert!(matches!(told, OpenRedisError::Unfit { .. }), "{told}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_is_refused() {
    let master = server().await;
    let (_master, replica) = blocking(move || {
        let replica = master.replica();
        (master, replica)
    })
    .await;
    let told = RedisLocks::open(options(&replica.url())).await.expect_err("a replica takes no changes").to_string();
    assert!(told.contains("replica"), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_not_there_is_told_in_time() {
    let mut server = server().await;
    server.kill();
    let begun = Instant::now();
    let told = RedisLocks::open(options(&server.url())).await.expect_err("nobody is there");
    assert!(matches!(told, OpenRedisError::Unavailable { .. }), "{told}");
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_is_asked_for_and_never_told() {
    let server = server().await;
    server.command(&["CONFIG", "SET", "requirepass", "secret-1"]);
    let url = |password: &str| format!("redis://:{password}@{}", server.address());
    let service = open(&url("secret-1")).await;
    service.acquire(&ask("ann", "r", LONG), Duration::ZERO).await.expect("free");
    assert!(!format!("{service:?} {} {:?}", service.describe(), service.leases()).contains("secret"));
    let told = RedisLocks::open(options(&url("secret-2"))).await.expect_err("another password");
    assert!(!format!("{told} {told:?}").contains("secret-"), "{told}");
}

/// L11: what Redis could keep for a shorter or longer time than can be waited for is refused with what would do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lives_out_of_bounds_are_refused_by_the_service_and_by_the_script() {
    let server = server().await;
    let service = open(&server.url()).await;
    let claims = || [Claim { resource: "r".into(), mode: Mode::Exclusive }];
    let year = Duration::from_secs(365 * 24 * 60 * 60);
    for ttl in [Duration::ZERO, Duration::from_micros(400), year] {
        assert!(Ask::new(LeaseId::random(), "ann", "host", claims(), ttl).is_err());
    }
    match service.acquire(&ask("ann", "r", Duration::from_secs(31)), Duration::ZERO).await {
        Err(AcquireError::Unsupported(told)) => assert!(told.contains("at most 30s"), "{told}"),
        other => panic!("{other:?}"),
    }
    let script = concat!(
        include_str!("../../src/redis/scripts/common.lua"),
        "\n",
        include_str!("../../src/redis/scripts/ask.lua")
    );
    let life = "lockkeeper:{locks}:life";
    let token = server.command(&["HGET", life, "token"]).text().expect("it was met");
    for ttl in ["0", "-1", "999", "30000001", "nan"] {
        let arguments = ["EVAL", script, "1", life, &token, "lease", "ann", "host", ttl, "-1", "node", "10", "r", "1"];
        let told = server.try_command(&arguments).expect_err("never a lock without expiry");
        assert!(told.contains("TTL") || told.contains("script"), "{told}");
    }
    let keys = server.command(&["KEYS", "*"]).texts().expect("a list");
    assert_eq!(keys, [life], "nothing is left behind");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_operation_is_one_round_trip() {
    let server = server().await;
    let service = open(&server.url()).await;
    let warm = ask("ann", "warm", LONG);
    service.acquire(&warm, Duration::ZERO).await.expect("free");
    service.renew(warm.lease()).await.expect("held");
    service.release(warm.lease(), true).await.expect("an answer");
    server.command(&["CONFIG", "RESETSTAT"]);
    for n in 0..10 {
        let ask = ask("ann", &format!("r{n}"), LONG);
        service.acquire(&ask, LONG).await.expect("free");
        service.renew(ask.lease()).await.expect("held");
        assert_eq!(service.release(ask.lease(), true).await, Ok(Release::Released));
    }
    assert_eq!((server.calls("evalsha"), server.calls("eval")), (30, 0));
    // And after the server has forgotten its scripts.
    server.command(&["SCRIPT", "FLUSH"]);
    service.acquire(&ask("ann", "warm", LONG), Duration::ZERO).await.expect("free");
    assert_eq!((server.calls("evalsha"), server.calls("eval")), (31, 1));
}

#[test]
fn urls_are_checked() {
    for url in ["redis://h:1/0", "rediss://ann:word@h", "redis://[::1]"] {
        RedisOptions::parse(url).expect("a good url");
    }
    RedisOptions::parse("sqlite://h").expect_err("another scheme");
}
