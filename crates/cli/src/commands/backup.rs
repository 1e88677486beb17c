//! `backup` and `restore`: a store into a file, and back.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use lockkeeper_model::WorkflowName;
use lockkeeper_model::history::{Entry, check};
use lockkeeper_store::{BackupFile, BackupSummary, PostgresStore, Scratch, Store, StoreClock, restore_sqlite};
use rustix::process::Signal;
use serde_json::json;

use crate::cli::ConnectionArgs;
use crate::client::{CallError, Client};
use crate::failure::Failure;
use crate::lock_run::{Signals, survive_file_limits};
use crate::output::Output;
use crate::store_url::{self, StoreUrl};

const BACKUP_EXAMPLES: &str = "\
Examples:
  lockkeeper backup monday.backup                                    of a running server (role admin)
  lockkeeper backup monday.backup --store sqlite://lockkeeper.db     of a store whose server is stopped
  lockkeeper backup monday.backup --store postgres://...             of a database, its nodes running or not
  lockkeeper restore monday.backup --store sqlite://lockkeeper.db

The file is written under another name, looked through, synced and only then renamed: what was there before stays until
the new one is whole. --verify looks through each history besides.";

const RESTORE_EXAMPLES: &str = "\
Examples:
  lockkeeper restore monday.backup --store sqlite://lockkeeper.db
  lockkeeper restore monday.backup --store postgres://user:password@host/database
  lockkeeper restore monday.backup --store sqlite://lockkeeper.db --replace

Any backup can be restored into any store, so this is also the way from SQLite to PostgreSQL. Stop the store's servers
first. Locks are not restored; whoever held one is late, for the store begins another life, with fences above all that
were given before. Definitions, tokens, idempotency keys and timers are restored.";

/// How long the server may be silent: it makes the whole backup before it sends the first byte.
const SILENCE_MAX: Duration = Duration::from_secs(60 * 60);

/// How often a spinner turns.
const TICK: Duration = Duration::from_millis(100);

/// Makes a backup of a store while it goes on.
#[derive(Debug, Args)]
#[command(after_help = BACKUP_EXAMPLES)]
pub(crate) struct BackupArgs {
    /// Where the backup goes; a file that is there is replaced when the new one is whole.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Read this store directly instead of asking a server; an embedded one must be stopped.
    #[arg(long, value_name = "URL")]
    pub store: Option<String>,
    /// Look through each instance's history: no gap, each step legal after the one before.
    #[arg(long)]
    pub verify: bool,
}

/// Restores a backup into a store.
#[derive(Debug, Args)]
#[command(after_help = RESTORE_EXAMPLES)]
pub(crate) struct RestoreArgs {
    /// The backup.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The store, which must be empty and have no server.
    #[arg(long, value_name = "URL")]
    pub store: String,
    /// Replace what is there. An embedded store's file is kept under another name; what is in a database is gone.
    #[arg(long)]
    pub replace: bool,
}

/// Runs `backup`.
pub(crate) async fn backup(args: &BackupArgs, connection: &ConnectionArgs, output: &Output) -> Result<(), Failure> {
    let scratch = beside(&args.file)?;
    let unheard = |error| Failure::failed(format!("cannot wait for signals: {error}"));
    survive_file_limits().map_err(unheard)?;
    let mut signals = Signals::ending().map_err(unheard)?;
    let partial = scratch.file();
    let summary = tokio::select! {
        made = make(args, connection, &partial) => made?,
        signal = signals.next() => return Err(ended(signal, &args.file)),
    };
    fs::rename(&partial, &args.file).map_err(|error| unwritable(&args.file, &error))?;
    sync_folder(&args.file)?;
    tell(output, &format!("backed up to {}", args.file.display()), &summary)
}

/// Runs `restore`.
pub(crate) async fn restore(args: &RestoreArgs, output: &Output) -> Result<(), Failure> {
    let url = StoreUrl::parse(&args.store)?;
    survive_file_limits().map_err(|error| Failure::failed(format!("cannot wait for signals: {error}")))?;
    let bar = spinner("looking through the backup");
    let backup = BackupFile::open(&args.file).map_err(Failure::failed)?;
    bar.set_message("restoring");
    let summary = match url {
        StoreUrl::Sqlite(path) => {
            restore_sqlite(&backup, &path, args.replace, &StoreClock::system()).map_err(Failure::failed)?
        }
        StoreUrl::Postgres(options) => {
            let store = PostgresStore::open(*options).await.map_err(Failure::failed)?;
            let restored = store.restore(backup, args.replace).await;
            store.close().await;
            restored.map_err(Failure::failed)?
        }
    };
    bar.finish_and_clear();
    tell(output, &format!("restored into {}", store_url::without_password(&args.store)), &summary)
}

/// Makes the backup in a file of another name, and looks through it.
async fn make(args: &BackupArgs, connection: &ConnectionArgs, partial: &Path) -> Result<BackupSummary, Failure> {
    let bar = spinner("making the backup");
    match &args.store {
        Some(store) => {
            let store = store_url::open(store).await?;
            let made = store.backup(partial).await;
            store.close().await;
            made.map_err(Failure::failed)?;
        }
        None => download(connection, partial, &bar).await?,
    }
    bar.set_message("looking through it");
    if args.verify {
        bar.set_message("looking through it and each history");
    }
    let (path, verify) = (partial.to_owned(), args.verify);
    let looked = tokio::task::spawn_blocking(move || look_through(&path, verify)).await;
    let summary = looked.map_err(|error| Failure::failed(format!("it was not looked through: {error}")))??;
    bar.finish_and_clear();
    Ok(summary)
}

/// Looks through a backup, with each history if wanted, and syncs it.
fn look_through(partial: &Path, verify: bool) -> Result<BackupSummary, Failure> {
    let backup = BackupFile::open(partial).map_err(Failure::failed)?;
    if verify {
        backup.look_through(history).map_err(Failure::failed)?;
    }
    File::open(partial).and_then(|file| file.sync_all()).map_err(|error| unwritable(partial, &error))?;
    Ok(backup.summary().clone())
}

/// Whether events are one legal history. What is no instance has none.
fn history(key: &lockkeeper_store::RecordKey, events: &[lockkeeper_store::Event]) -> Result<(), String> {
    if WorkflowName::new(&key.space).is_err() {
        return Ok(());
    }
    let entry = |event: &lockkeeper_store::Event| match serde_json::from_slice::<Entry>(&event.body) {
        Ok(entry) => Ok((event.version, entry)),
        Err(error) => Err(format!("version {}: {error}", event.version)),
    };
    let entries: Vec<(i64, Entry)> = events.iter().map(entry).collect::<Result<_, _>>()?;
    check(entries.iter().map(|(version, entry)| (*version, entry)))
}

async fn download(connection: &ConnectionArgs, partial: &Path, bar: &ProgressBar) -> Result<(), Failure> {
    let client = Client::new(connection)?;
    let mut file = File::options().write(true).open(partial).map_err(|error| unwritable(partial, &error))?;
    let mut response = match client.post_for_file("/v1/backup", SILENCE_MAX).await {
        Ok(response) => response,
        // Nothing comes of a backup that nobody receives: there is nothing to look for.
        Err(CallError::Lost(detail)) => return Err(cut_short(&detail)),
        Err(error) => return Err(client.failure(error)),
    };
    let bytes = response.content_length();
    if let Some(bytes) = bytes {
        bar.set_length(bytes);
        let style = ProgressStyle::with_template("{msg} {bar:30} {bytes}/{total_bytes}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    }
    bar.set_message("receiving the backup");
    loop {
        match response.chunk().await {
            Ok(Some(piece)) => {
                file.write_all(&piece).map_err(|error| unwritable(partial, &error))?;
                bar.inc(piece.len() as u64);
            }
            Ok(None) => break,
            Err(error) => return Err(cut_short(&error)),
        }
    }
    file.flush().map_err(|error| unwritable(partial, &error))
}

/// A file in the same folder that nobody else may read: a backup has all that the store has. What killed processes have left
/// there of theirs goes.
fn beside(file: &Path) -> Result<Scratch, Failure> {
    if file.file_name().is_none() || file.is_dir() {
        return Err(Failure::usage(format!("{}: give the name of a file", file.display())));
    }
    Scratch::new(folder_of(file)).map_err(|error| unwritable(file, &error))
}

fn cut_short(error: &dyn std::fmt::Display) -> Failure {
    Failure::failed(format!("the backup was cut short: {error}; nothing was written: try again"))
}

fn folder_of(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn ended(signal: Signal, file: &Path) -> Failure {
    let number = u8::try_from(signal.as_raw()).unwrap_or_default();
    Failure::Ended(number, format!("ended by signal {number}: {} was not written", file.display()))
}

fn spinner(message: &'static str) -> ProgressBar {
    let bar = ProgressBar::new_spinner().with_message(message);
    bar.enable_steady_tick(TICK);
    bar
}

fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::failed(format!("cannot write {}: {error}", path.display()))
}

fn sync_folder(file: &Path) -> Result<(), Failure> {
    let folder = folder_of(file);
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| unwritable(folder, &error))
}

fn tell(output: &Output, what: &str, summary: &BackupSummary) -> Result<(), Failure> {
    let BackupSummary { records, events, keys, content } = summary;
    if output.is_json() {
        let document = json!({ "records": records, "events": events, "keys": keys, "content": content });
        return output.print(&document.to_string());
    }
    output.print(&format!(
        "{what}: {records} records, {events} events, {keys} idempotency keys; content {}",
        &content[..16]
    ))
}
