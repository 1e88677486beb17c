//! Holding a name together.

use lockkeeper_locks::Mode;

use crate::bench::{Bench, LONG, ask, ask_in};

pub(crate) async fn readers_share_and_a_writer_waits(bench: &Bench) {
    let readers: Vec<_> = (0..5).map(|n| ask_in(Mode::Shared, &format!("reader {n}"), "r", LONG)).collect();
    for reader in &readers {
        bench.acquire(reader).await;
    }
    let writer = ask("writer", "r", LONG);
    assert!(bench.held(&writer).await.owner.starts_with("reader"));
    let waiting = bench.queue(&writer, LONG).await;
    for reader in &readers {
        assert!(!waiting.is_over());
        bench.release(reader).await;
    }
    waiting.granted().await;
    assert_eq!(&*bench.held(&ask_in(Mode::Shared, "reader", "r", LONG)).await.owner, "writer");
}

pub(crate) async fn no_reader_passes_a_waiting_writer(bench: &Bench) {
    let (early, late) = (ask_in(Mode::Shared, "early", "r", LONG), ask_in(Mode::Shared, "late", "r", LONG));
    bench.acquire(&early).await;
    let writer = ask("writer", "r", LONG);
    let waiting = bench.queue(&writer, LONG).await;
    assert_eq!(&*bench.held(&late).await.owner, "writer");
    let reading = bench.queue(&late, LONG).await;
    bench.release(&early).await;
    waiting.granted().await;
    assert!(!reading.is_over());
    bench.release(&writer).await;
    reading.granted().await;
}

pub(crate) async fn so_many_permits_and_no_more(bench: &Bench) {
    let permits: Vec<_> = (0..4).map(|n| ask_in(Mode::Permits(3), &format!("p{n}"), "r", LONG)).collect();
    for permit in &permits[..3] {
        bench.acquire(permit).await;
    }
    let waiting = bench.queue(&permits[3], LONG).await;
    bench.release(&permits[1]).await;
    waiting.granted().await;
    bench.held(&ask_in(Mode::Permits(3), "p5", "r", LONG)).await;
}

pub(crate) async fn the_strictest_decides(bench: &Bench) {
    let three = ask_in(Mode::Permits(3), "three", "r", LONG);
    bench.acquire(&three).await;
    bench.held(&ask("alone", "r", LONG)).await;
    bench.acquire(&ask_in(Mode::Permits(5), "five", "r", LONG)).await;
    bench.acquire(&ask_in(Mode::Shared, "any", "r", LONG)).await;
    bench.held(&ask_in(Mode::Permits(5), "five more", "r", LONG)).await;
    bench.release(&three).await;
    bench.acquire(&ask_in(Mode::Permits(3), "third", "r", LONG)).await;
    bench.held(&ask_in(Mode::Permits(2), "two", "r", LONG)).await;
}

pub(crate) async fn readers_are_let_in_together(bench: &Bench) {
    let writer = ask("writer", "r", LONG);
    bench.acquire(&writer).await;
    let mut reading = Vec::new();
    for n in 0..8 {
        reading.push(bench.queue(&ask_in(Mode::Shared, &format!("reader {n}"), "r", LONG), LONG).await);
    }
    bench.release(&writer).await;
    let mut fences = Vec::new();
    for reader in reading {
        fences.push(reader.granted().await.fences);
    }
    fences.dedup();
    assert_eq!(fences.len(), 1, "one generation");
}
