//! What can be locked.

use lockkeeper_locks::{Ask, Claim, LeaseId, Mode};

use crate::bench::{Bench, LONG, ask};

pub(crate) async fn every_name_is_its_own(bench: &Bench) {
    let long = "x".repeat(512);
    let longer = format!("{}y", &long[..511]);
    let names = [
        "a",
        "A",
        "a ",
        " a",
        "{",
        "}{",
        "{a}",
        "a{b}c",
        "a:b",
        "a/b",
        "a%2Fb",
        "*",
        "?",
        "[a]",
        "ä",
        "a\u{308}",
        "日本",
        "🚤",
        "'",
        "\"",
        "\\",
        "$1",
        ";--",
        "..a",
        "-",
        "0",
        "null",
        long.as_str(),
        longer.as_str(),
    ];
    let mut asks = Vec::new();
    for name in names {
        let ask = ask("ann", name, LONG);
        bench.acquire(&ask).await;
        asks.push(ask);
    }
    for name in names {
        assert_eq!(&*bench.held(&ask("bob", name, LONG)).await.resource, name);
    }
    for ask in &asks {
        bench.release(ask).await;
    }
}

pub(crate) async fn what_is_no_name_is_refused(bench: &Bench) {
    let new = |name: &str| {
        let claim = Claim { resource: name.into(), mode: Mode::Exclusive };
        Ask::new(LeaseId::random(), "ann", "h", [claim], LONG)
    };
    for bad in ["", ".", "..", "a\0b", "a\nb", "\u{7f}", &"x".repeat(513), &"x".repeat(10_000)] {
        assert!(new(bad).is_err(), "{bad:?}");
    }
    bench.acquire(&new("good").expect("a good name")).await;
}
