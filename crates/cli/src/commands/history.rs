//! `history`: lists what happened to an instance.

use clap::Args;

use crate::commands::paging::Listing;
use crate::commands::{Context, field, history_table, list};
use crate::failure::Failure;
use crate::target::Target;

/// What is said once below a history with unverified actors.
const UNVERIFIED: &str = "actors are unverified: the server has no tokens, and believed who they said they were";

/// Lists every change of an instance: who, when, what.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  lockkeeper history purchase/po-1\n  lockkeeper history purchase/po-1 -o json | jq '.items[].actor'"
)]
pub(crate) struct HistoryArgs {
    /// The instance.
    #[arg(value_name = "WORKFLOW/ID")]
    pub target: Target,
    /// The most changes to list, oldest first; without it, all.
    #[arg(long, value_name = "N", value_parser = list::limit)]
    pub limit: Option<usize>,
}

/// Runs `history`.
pub(crate) async fn run(args: &HistoryArgs, context: &Context<'_>) -> Result<(), Failure> {
    let listing = Listing { path: args.target.path(&["history"]), filters: Vec::new(), limit: args.limit };
    if context.output.is_json() {
        return context.output.print(&listing.document(&context.client).await?);
    }
    let (items, rest) = listing.values(&context.client).await?;
    let unverified = items.iter().any(|item| field::is_given(item, "unverified"));
    let rows = items.iter().map(history_table::row).collect();
    context.output.print(&context.output.table(&history_table::HEADING, rows))?;
    if let Some(oldest) = rest.oldest_version.filter(|oldest| *oldest > 1) {
        context.output.note(&purged(1, oldest, items.is_empty()));
    }
    if rest.next.is_some() {
        context.output.note("there are more: give a larger --limit, or none");
    }
    if unverified {
        context.output.note(UNVERIFIED);
    }
    Ok(())
}

/// What is said of a history that is kept from `oldest` on only, to who wanted it from `first` on.
pub(crate) fn purged(first: i64, oldest: i64, is_empty: bool) -> String {
    let what = match oldest - 1 {
        last if last <= first => format!("version {first} was"),
        last => format!("versions {first} to {last} were"),
    };
    match is_empty {
        true => format!("{what} purged: nothing of the history is kept"),
        false => format!("{what} purged: the history is kept from version {oldest} on"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_was_purged() {
        assert_eq!(purged(1, 2, false), "version 1 was purged: the history is kept from version 2 on");
        assert_eq!(purged(1, 4, false), "versions 1 to 3 were purged: the history is kept from version 4 on");
        assert_eq!(purged(1, 4, true), "versions 1 to 3 were purged: nothing of the history is kept");
        assert_eq!(purged(3, 6, false), "versions 3 to 5 were purged: the history is kept from version 6 on");
    }
}
