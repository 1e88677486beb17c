//! `bench`: measures acknowledged moves against one synced commit at a time on the same disk, in the same run.

mod baseline;
mod clients;
mod report;
mod target;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use lockkeeper_engine::{Engine, Options, SystemClock};
use lockkeeper_server::{Server, ServerOptions};
use tempfile::TempDir;

use crate::bench::clients::{Load, Measured};
use crate::bench::target::{HttpTarget, InProcess, Target};
use crate::failure::Failure;
use crate::output::Output;
use crate::store_url;

const EXAMPLES: &str = "\
Examples:
  lockkeeper bench hot                                 256 clients move one instance
  lockkeeper bench many --keys 1000 --clients 100
  lockkeeper bench hot --store sqlite:///data/bench.db --seconds 10 -o json

Every row is measured in this run, on the disk of --store. The first is the peer: one synced commit at a time.";

/// Measures acknowledged moves per second against one synced commit at a time on the same disk.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BenchArgs {
    /// One instance that all clients write to, or many.
    #[arg(value_enum)]
    pub scenario: Scenario,
    /// The store to measure; it keeps what the benchmark writes. Without it, a new SQLite file in a folder that is
    /// removed afterwards.
    #[arg(long, value_name = "URL")]
    pub store: Option<String>,
    /// Clients that send at once.
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub clients: u32,
    /// Instances that `many` spreads its commands over.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub keys: u32,
    /// Seconds that each row is measured for.
    #[arg(long, value_name = "S", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=3_600))]
    pub seconds: u32,
    /// Leave out the row that goes through HTTP.
    #[arg(long)]
    pub no_http: bool,
}

/// What the clients write to: one instance, all of them (`hot`), or `--keys` instances (`many`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scenario {
    Hot,
    Many,
}

/// The store that is measured, and the folder that its disk is told by.
struct Place {
    url: String,
    folder: PathBuf,
    /// Removed, with all that is in it, when the benchmark ends.
    _temporary: Option<TempDir>,
}

/// Runs the benchmark and prints its rows.
///
/// # Errors
/// What kept it from measuring; an acknowledged move that the store has not.
pub(crate) async fn run(args: BenchArgs, output: &Output) -> Result<ExitCode, Failure> {
    let place = place(args.store.as_deref())?;
    let keys = if args.scenario == Scenario::Hot { 1 } else { args.keys };
    let load = Load { clients: args.clients, keys, duration: Duration::from_secs(args.seconds.into()) };
    let progress = report::Progress::new(if args.no_http { 3 } else { 4 }, load.duration);

    progress.next("one synced commit at a time");
    let (folder, duration) = (place.folder.clone(), load.duration);
    let peer =
        tokio::task::spawn_blocking(move || baseline::measure(&folder, duration)).await.map_err(Failure::failed)??;
    let mut rows = vec![peer];

    let engine = Engine::new(store_url::open(&place.url)?, Options::default());
    let measured = measure_engine(&engine, &load, args.no_http, &progress, &mut rows).await;
    engine.shutdown().await;
    measured?;
    progress.done();
    output.print(&report::render(&rows, &load, &place.url, output))?;
    match rows.iter().find(|row| row.lost != 0) {
        Some(row) => Err(Failure::failed(format!(
            "{}: {} acknowledged moves differ from what the store has; please report this",
            row.name, row.lost
        ))),
        None => Ok(ExitCode::SUCCESS),
    }
}

async fn measure_engine(
    engine: &Engine,
    load: &Load,
    no_http: bool,
    progress: &report::Progress,
    rows: &mut Vec<Measured>,
) -> Result<(), Failure> {
    for (name, combine) in [("engine in process", true), ("engine in process, combine: false", false)] {
        progress.next(name);
        let target = InProcess::prepare(engine, combine, load.keys).await?;
        rows.push(clients::measure(name, Arc::new(target), load).await?);
    }
    if no_http {
        return Ok(());
    }
    progress.next("HTTP on loopback");
    let options = ServerOptions { listen: ([127, 0, 0, 1], 0).into(), tls: None, clock: Arc::new(SystemClock) };
    let server = Server::start(engine.clone(), options).await.map_err(Failure::failed)?;
    let target = Arc::new(HttpTarget::prepare(engine, &server.url(), load.keys).await?);
    let measured = clients::measure("HTTP on loopback", target, load).await;
    // The server ends the engine too: it is the last row.
    server.stop().await.map_err(Failure::failed)?;
    rows.push(measured?);
    Ok(())
}

fn place(store: Option<&str>) -> Result<Place, Failure> {
    match store {
        Some(url) => {
            let folder = store_url::sqlite_path(url)?.parent().filter(|folder| !folder.as_os_str().is_empty());
            let folder = folder.unwrap_or(Path::new(".")).to_owned();
            Ok(Place { url: url.to_owned(), folder, _temporary: None })
        }
        None => {
            // Beside the work, not in /tmp: that is often memory, where a sync costs nothing.
            let temporary = tempfile::Builder::new().prefix(".lockkeeper-bench-").tempdir_in(".");
            let temporary =
                temporary.map_err(|error| Failure::failed(format!("cannot make a folder here: {error}")))?;
            let url = format!("sqlite://{}", temporary.path().join("bench.db").display());
            Ok(Place { url, folder: temporary.path().to_owned(), _temporary: Some(temporary) })
        }
    }
}

/// The moves that a target acknowledged against those that it holds.
async fn lost(target: &dyn Target, before: i64, acknowledged: u64) -> Result<i64, Failure> {
    let stored = target.versions().await? - before;
    Ok(i64::try_from(acknowledged).unwrap_or(i64::MAX) - stored)
}
