//! Lists that come page by page.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::client::{Client, Request};
use crate::encode;
use crate::failure::Failure;

/// Items asked for at once where the user asked for many: with the largest data, a page stays below 30 MiB.
pub(crate) const PAGE_ITEMS: usize = 100;

/// The most pages that one command reads: a server that gives cursors forever ends here.
const PAGES_MAX: usize = 1_000_000;

/// One page, its items as they came.
#[derive(Debug, Deserialize)]
pub(crate) struct Page {
    /// The items' JSON.
    pub items: Vec<Box<RawValue>>,
    /// Where the next page begins; none: this was the last.
    pub next_cursor: Option<String>,
    /// Of a history: the oldest version that is kept.
    pub oldest_version: Option<i64>,
}

/// What is known of a list besides its items.
#[derive(Debug, Default)]
pub(crate) struct Rest {
    /// Where what was not read begins; none: all was read.
    pub next: Option<String>,
    /// Of a history: the oldest version that is kept, as the first page said.
    pub oldest_version: Option<i64>,
}

impl Page {
    /// The items as values.
    fn values(&self) -> Result<Vec<Value>, Failure> {
        self.items.iter().map(|item| value(item)).collect()
    }
}

/// Reads one item.
pub(crate) fn value(item: &RawValue) -> Result<Value, Failure> {
    serde_json::from_str(item.get()).map_err(|e| Failure::failed(format!("cannot read the server's answer: {e}")))
}

/// A list to be read.
#[derive(Debug)]
pub(crate) struct Listing<'a> {
    /// The encoded path.
    pub path: String,
    /// What is asked for besides `limit` and `cursor`.
    pub filters: Vec<(&'a str, Option<String>)>,
    /// The most items to read; none: all.
    pub limit: Option<usize>,
}

impl Listing<'_> {
    /// Reads page after page and hands each to `show`. Says where what was not read begins.
    async fn read(&self, client: &Client, mut show: impl FnMut(Page) -> Result<(), Failure>) -> Result<Rest, Failure> {
        let (mut cursor, mut oldest_version) = (None, None);
        let mut left = self.limit.unwrap_or(usize::MAX);
        for _ in 0..PAGES_MAX {
            let mut query = self.filters.clone();
            query.push(("limit", Some(left.min(PAGE_ITEMS).to_string())));
            query.push(("cursor", cursor.clone()));
            let request = Request::get(format!("{}{}", self.path, encode::query(&query)));
            let mut page: Page = client.call(&request).await?.read()?;
            page.items.truncate(left);
            left -= page.items.len();
            let next = page.next_cursor.clone();
            oldest_version = oldest_version.or(page.oldest_version);
            show(page)?;
            if next.is_none() || left == 0 {
                return Ok(Rest { next, oldest_version });
            }
            if next == cursor {
                return Err(Failure::failed("the server's list does not go on: the same cursor twice"));
            }
            cursor = next;
        }
        Ok(Rest { next: cursor, oldest_version })
    }

    /// Reads the whole list as values.
    pub(crate) async fn values(&self, client: &Client) -> Result<(Vec<Value>, Rest), Failure> {
        let mut items = Vec::new();
        let rest = self
            .read(client, |page| {
                items.extend(page.values()?);
                Ok(())
            })
            .await?;
        Ok((items, rest))
    }

    /// Reads the whole list as one document: `{items, next_cursor}`, and what else the list has.
    pub(crate) async fn document(&self, client: &Client) -> Result<String, Failure> {
        let mut items = Vec::new();
        let rest = self
            .read(client, |page| {
                items.extend(page.items.iter().map(|item| item.get().to_owned()));
                Ok(())
            })
            .await?;
        let next = serde_json::Value::from(rest.next);
        let oldest = rest.oldest_version.map(|oldest| format!(",\"oldest_version\":{oldest}")).unwrap_or_default();
        Ok(crate::json::pretty(&format!("{{\"items\":[{}],\"next_cursor\":{next}{oldest}}}", items.join(","))))
    }
}
