//! Leases as lists tell them, and who waits for whom.

use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::types::Type;
use tokio_postgres::{Error, Row};
use uuid::Uuid;

use crate::ReadError;
use crate::lease::{Edge, Holder, LeasePage, LeaseQuery, Mode, ResourceView};
use crate::limits::{EDGES_MAX, PAGE_MAX};
use crate::postgres::failure::read_error;
use crate::postgres::queries::run;
use crate::postgres::rows::timestamp;
use crate::postgres::store::Shared;
use crate::postgres::values::Parameter;

/// One page of the names that are held or waited for.
pub(in crate::postgres) async fn page(shared: &Shared, query: &LeaseQuery) -> Result<LeasePage, ReadError> {
    let limit = query.limit.clamp(1, PAGE_MAX);
    let (after, one_more) = (query.after.as_deref().unwrap_or_default(), (limit + 1) as i64);
    if after.contains('\0') {
        // No name does, and no parameter can.
        return Err(ReadError::BadCursor(after.to_owned()));
    }
    let parameters: [Parameter<'_>; 2] = [(&after, Type::TEXT), (&one_more, Type::INT8)];
    let rows = run(shared, &shared.calls.leases, &parameters).await?;
    read_page(&rows, limit).map_err(|error| read_error(&error))
}

/// Rows of holders, sorted by name; a name without holders has one, and so has a page without names.
fn read_page(rows: &[Row], limit: usize) -> Result<LeasePage, Error> {
    let mut page = LeasePage::default();
    for row in rows {
        page.now = timestamp(row.try_get("now_ms")?);
        let Some(resource) = row.try_get::<_, Option<&str>>("resource")? else { continue };
        if page.resources.last().is_none_or(|last| &*last.resource != resource) {
            let waiters = row.try_get::<_, i64>("waiters")?.unsigned_abs();
            page.resources.push(ResourceView { resource: resource.into(), holders: Vec::new(), waiters });
        }
        if let (Some(holder), Some(view)) = (holder(row)?, page.resources.last_mut()) {
            view.holders.push(holder);
        }
    }
    let more = page.resources.len() > limit;
    page.resources.truncate(limit);
    page.next = page.resources.last().filter(|_| more).map(|last| last.resource.to_string());
    Ok(page)
}

fn holder(row: &Row) -> Result<Option<Holder>, Error> {
    let Some(lease) = row.try_get::<_, Option<Uuid>>("lease")? else { return Ok(None) };
    Ok(Some(Holder {
        lease: lease.into(),
        names: row.try_get::<_, i32>("names")?.unsigned_abs(),
        owner: text(row, "owner")?,
        host: text(row, "host")?,
        mode: Mode::of_capacity(row.try_get::<_, i32>("capacity")?.unsigned_abs()),
        fence: row.try_get("fence")?,
        since: timestamp(row.try_get("since_ms")?),
        expires: timestamp(row.try_get("expires_ms")?),
        ttl: Duration::from_millis(row.try_get::<_, i64>("ttl_ms")?.unsigned_abs()),
    }))
}

/// Who waits for whom, from one snapshot: see [`crate::lease::Memory::edges`].
pub(in crate::postgres) async fn edges(shared: &Shared) -> Result<Vec<Edge>, ReadError> {
    let most = EDGES_MAX as i64;
    let rows = run(shared, &shared.calls.lease_edges, &[(&most, Type::INT8)]).await?;
    rows.iter().map(edge).collect::<Result<_, _>>().map_err(|error| read_error(&error))
}

fn edge(row: &Row) -> Result<Edge, Error> {
    Ok(Edge {
        waiter: row.try_get::<_, Uuid>("lease")?.into(),
        ticket: row.try_get("ticket")?,
        owner: text(row, "owner")?,
        blocker: text(row, "blocker")?,
    })
}

fn text(row: &Row, column: &str) -> Result<Arc<str>, Error> {
    Ok(row.try_get::<_, &str>(column)?.into())
}
