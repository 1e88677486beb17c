use std::sync::LazyLock;

use chrono::DateTime;
use lockkeeper_model::{
    Act, Action, Actor, Close, Command, Decision, Definition, EndedRun, Entry, Fire, Format, Instance, InstanceId,
    InstanceKey, Known, Migrate, Send, Start, Success, decide, history,
};
use uuid::Uuid;

/// With everything that an instance keeps something for.
static DEFINITION: LazyLock<Definition> = LazyLock::new(|| {
    Definition::read(include_str!("stored.yaml"), Format::Yaml).expect("a definition").with_version(3)
});

/// Any bytes as what the store may hold: whatever can be read is judged without a panic, and what comes of it can be read
/// again. A node may have written it that knows more, or knew less; so it need not be what this one would write.
pub fn stored(bytes: &[u8]) {
    _ = serde_json::from_slice::<Success>(bytes);
    _ = serde_json::from_slice::<EndedRun>(bytes);
    if let Ok(entry) = serde_json::from_slice::<Entry>(bytes) {
        _ = history::check([(1, &entry), (2, &entry)]);
        let text = serde_json::to_vec(&entry).expect("an entry is JSON");
        assert_eq!(serde_json::from_slice::<Entry>(&text).expect("what was written"), entry);
    }
    if let Ok(mut instance) = serde_json::from_slice::<Instance>(bytes) {
        instance.version = i64::from(bytes.len() as u32);
        judge(&instance);
    }
}

fn judge(instance: &Instance) {
    let definition = &*DEFINITION;
    _ = instance.next_due();
    _ = definition.open_events(&instance.state);
    for timer in &instance.timers {
        _ = definition.timer(instance, timer);
    }
    _ = definition.approvals(&InstanceId::new("1").expect("a good id"), instance);
    let now = DateTime::from_timestamp(1_800_000_000, 0).expect("a time");
    for action in actions(instance) {
        for actor in ["ann", "bob", "timer"] {
            let command = Command {
                instance: InstanceKey::new("stored", "1").expect("a good id"),
                action: action.clone(),
                actor: Actor::new(actor, ["finance".to_owned()], true).expect("a good name"),
                idempotency_key: None,
            };
            let known = Known { definition, begun_before: None, target: Some(definition) };
            let decided = decide(known, Some(instance), &command, now);
            assert_eq!(decided, decide(known, Some(instance), &command, now), "the same judge twice");
            let Ok(Decision::Change(change)) = decided else { continue };
            assert_eq!(change.instance.version, instance.version + 1);
            let text = serde_json::to_vec(&change.instance).expect("an instance is JSON");
            let read: Instance = serde_json::from_slice(&text).expect("what was written");
            assert_eq!(Instance { version: change.instance.version, ..read }, change.instance);
        }
    }
}

fn actions(instance: &Instance) -> Vec<Action> {
    let close = Close { run: Some(instance.run), reason: "why".to_owned() };
    let send = |event: &str, act| Action::Send(Send { event: Some(event.to_owned()), act, ..Send::default() });
    let mut actions = vec![
        Action::Start(Start { run: Uuid::from_u128(9), ..Start::default() }),
        Action::Terminate(close.clone()),
        Action::Cancel(close),
        Action::Migrate(Migrate { reason: "why".to_owned(), ..Migrate::default() }),
        Action::Send(Send { to: Some("draft".to_owned()), ..Send::default() }),
        send("approve", Some(Act::Delegate { to: "zoe".to_owned() })),
        send("approve", Some(Act::AddApprover { id: "zoe".to_owned() })),
        send("approve", Some(Act::Recall)),
        Action::Send(Send { act: Some(Act::Recall), ..Send::default() }),
    ];
    actions.extend(["submit", "approve", "reject", "send_back", "note"].map(|event| send(event, None)));
    let due = instance.next_due().unwrap_or_default();
    actions.extend(
        [due, DateTime::UNIX_EPOCH, DateTime::<chrono::Utc>::MAX_UTC].map(|until| Action::Fire(Fire { until })),
    );
    actions
}
