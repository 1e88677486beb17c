//! What a decision takes: `cargo test --release -p lockkeeper-model --test suite -- --ignored --nocapture figures`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use lockkeeper_model::{Action, Command, Send, decide};

use crate::support::{Case, actor, at, data, key_of};

const DEFINITION: &str = r#"
workflow: case
initial: open
states:
  open:
    on:
      bare: {}
      move: {target: open}
      guarded: {target: open, guard: "actor.id != instance.started_by"}
      stocked: {guard: "event.quantity > 0 && data.on_hand >= event.quantity"}
      take:
        guard: "event.quantity > 0 && data.on_hand >= event.quantity"
        assign: {on_hand: "data.on_hand - event.quantity"}
      set: {assign: {amount: event.quantity}}
      vote: {target: open, approval: {quorum: 3}}
      end: done
  done: {type: final}
"#;

fn best(mut run: impl FnMut()) -> Duration {
    const ROUNDS: u32 = 2_000;
    let round = |_| {
        let begun = Instant::now();
        (0..ROUNDS).for_each(|_| run());
        begun.elapsed() / ROUNDS
    };
    (0..15).map(round).min().unwrap()
}

#[test]
#[ignore = "prints figures; they mean something in a release build only"]
fn figures_of_a_decision() {
    for (size, blob) in [("small data", 0), ("250 KiB of data", 250 * 1024)] {
        let mut case = Case::new(DEFINITION);
        case.run(&format!(
            "ann start data={{\"on_hand\":1000000,\"blob\":\"{}\"}} -> started v1 open",
            "x".repeat(blob)
        ));
        for event in ["bare", "move", "guarded", "stocked", "vote", "set", "take", "end", "nothing"] {
            let send = Send {
                event: Some(event.to_owned()),
                data: if matches!(event, "stocked" | "take" | "set") { data(r#"{"quantity":1}"#) } else { data("{}") },
                ..Send::default()
            };
            let command = Command {
                instance: key_of("case"),
                action: Action::Send(send),
                actor: actor("bob[x]"),
                idempotency_key: None,
            };
            let taken = best(|| drop(black_box(decide(&case.definition, case.current.as_ref(), &command, at(9)))));
            println!("{:>9.2} us  {event:<8} {size}", taken.as_nanos() as f64 / 1e3);
        }
    }
}
