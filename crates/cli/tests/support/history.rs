//! Whole histories, and what must hold of each.

use std::collections::HashSet;

use lockkeeper_model::history::{Entry, check};
use serde_json::{Value, json};

use super::api::Api;
use super::call::instance;

/// Rows of one page: small enough that longer histories have several.
const PAGE: usize = 200;

/// One committed change.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) version: i64,
    pub(crate) kind: String,
    pub(crate) event: Option<String>,
    pub(crate) actor: String,
    pub(crate) key: Option<String>,
    /// As the API gave it.
    pub(crate) raw: Value,
}

/// Reads a history page by page and checks it: no gap from version 1 on, each change legal after the one before, no
/// idempotency key twice.
pub(crate) async fn history(api: &Api, workflow: &str, id: &str) -> Vec<Row> {
    let rows = pages(api, &instance(workflow, id, "/history")).await;
    assert_eq!(rows.first().map(|row| row.version), Some(1), "{workflow}/{id} begins with version 1");
    let entries: Vec<(i64, Entry)> = rows.iter().map(|row| (row.version, entry(&row.raw))).collect();
    let checked = check(entries.iter().map(|(version, entry)| (*version, entry)));
    checked.unwrap_or_else(|problem| panic!("{workflow}/{id}: {problem}"));
    let mut keys = HashSet::new();
    for row in &rows {
        assert!(row.key.as_ref().is_none_or(|key| keys.insert(key.clone())), "{workflow}/{id}: twice: {row:?}");
    }
    rows
}

async fn pages(api: &Api, path: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = api.get(&format!("{path}?limit={PAGE}&cursor={cursor}")).await.ok();
        let items = page["items"].as_array().expect("a list has items");
        assert!(items.len() <= PAGE, "the limit was {PAGE}: {}", items.len());
        rows.extend(items.iter().map(row));
        match page["next_cursor"].as_str() {
            Some(next) => next.clone_into(&mut cursor),
            None => return rows,
        }
    }
}

fn row(item: &Value) -> Row {
    let text = |name: &str| item[name].as_str().map(str::to_owned);
    Row {
        version: item["version"].as_i64().expect("a row has a version"),
        kind: text("kind").expect("a row has a kind"),
        event: text("event"),
        actor: text("actor").expect("a row has an actor"),
        key: text("key"),
        raw: item.clone(),
    }
}

/// The row as the model has it.
fn entry(item: &Value) -> Entry {
    let mut item = item.clone();
    let verified = item["unverified"] != json!(true);
    item["actor"] = json!({ "id": item["actor"], "roles": item["roles"], "verified": verified });
    serde_json::from_value(item.clone()).unwrap_or_else(|error| panic!("not a history row ({error}): {item}"))
}
