//! `bench`: measures acknowledged moves against what a careful program does without this engine, on the same store, in
//! the same run.

mod baseline;
mod clients;
mod hand_off;
mod locks;
mod place;
mod report;
mod row;
mod target;
mod timers;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use lockkeeper_engine::{Engine, Options, SystemClock};
use lockkeeper_locks::{Durable, REDIS_MAX_TTL_DEFAULT, ServiceOptions};
use lockkeeper_server::metrics::Metrics;
use lockkeeper_server::{Server, ServerOptions};
use lockkeeper_store::Store;

use crate::bench::clients::Load;
use crate::bench::locks::{LockTarget, Way};
use crate::bench::place::{Kind, Place};
use crate::bench::row::Row;
use crate::bench::target::{HttpTarget, InProcess, Shape};
use crate::failure::Failure;
use crate::locks_url::LocksUrl;
use crate::output::Output;
use crate::store_url;

const EXAMPLES: &str = "\
Examples:
  lockkeeper bench hot                                 256 clients move one instance
  lockkeeper bench many --keys 1000 --clients 100
  lockkeeper bench hot --store sqlite:///data/bench.db --seconds 10 -o json
  lockkeeper bench locks --clients 50 --keys 50        clients lock their resources and unlock them
  lockkeeper bench handoff --clients 64                clients wait for one lock, each holds it for 1 ms
  lockkeeper bench handoff --clients 64 --locks redis://127.0.0.1:6379
  lockkeeper bench timers --keys 100000                timers that are all due at once, each fired once
  lockkeeper bench timers --keys 100000 --kills 3      the same over servers that are killed at work
  lockkeeper bench hot --clients 100 --store postgres://me:secret@db/test --only adaptive --nodes 3
  lockkeeper bench hot --store postgres://me@db/test --peer 'python3 peer.py --clients {clients} --keys {keys}'

Every row is measured in this run, on --store. The first rows are the peers: one synced commit at a time on the disk of
a file; a row lock, and a conditional write that is tried three times, on a database. There the benchmark works in a
schema of its own, lockkeeper_bench, and drops it afterwards; in one that the URL names it leaves its workflows.";

/// Measures acknowledged moves per second against what a careful program does without this engine.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BenchArgs {
    /// Moves of one instance, or of many; locks that are taken and given back, or handed from one to the next; timers.
    #[arg(value_enum)]
    pub scenario: Scenario,
    /// The store to measure; a file keeps what the benchmark writes. Without it, a new SQLite file in a folder that is
    /// removed afterwards.
    #[arg(long, value_name = "URL")]
    pub store: Option<String>,
    /// The lock service that `locks` and `handoff` measure: `store`, or redis://user:password@host:6379.
    #[arg(long, value_name = "URL", default_value = "store")]
    pub locks: String,
    /// Clients that send at once.
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub clients: u32,
    /// Instances that `many` spreads its commands over; timers of `timers`.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub keys: u32,
    /// Seconds that each row is measured for.
    #[arg(long, value_name = "S", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=3_600))]
    pub seconds: u32,
    /// Only rows whose name contains this; may be given several times. Peers are always measured.
    #[arg(long, value_name = "PART")]
    pub only: Vec<String>,
    /// Nodes of the row that shows several on one database.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=16))]
    pub nodes: u32,
    /// Servers that `timers` starts and kills (SIGKILL) a second later, one after another, before the timers that are left
    /// fire in process.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub kills: u32,
    /// Another peer: a command that prints a JSON object a line with `strategy`, `ok_per_s`, `mean_ms`, `p99_ms`,
    /// `success_pct` and `lost`. {clients}, {keys} and {seconds} are replaced.
    #[arg(long = "peer", value_name = "COMMAND")]
    pub peers: Vec<String>,
    /// Leave out the row that goes through HTTP.
    #[arg(long)]
    pub no_http: bool,
}

/// What the clients do: write to one instance, all of them (`hot`), or to `--keys` instances (`many`); lock and unlock
/// `--keys` resources (`locks`); wait for one lock, and measure the way from one holder to the next (`handoff`). Or nothing:
/// `--keys` timers that are due fire by themselves, and are shown as moves, with how long each waited (`timers`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scenario {
    Hot,
    Many,
    Locks,
    Handoff,
    Timers,
}

impl Scenario {
    /// Whether all clients share one thing.
    fn is_one(self) -> bool {
        matches!(self, Self::Hot | Self::Handoff)
    }

    /// Whether it is about locks, and not about moves.
    fn is_locks(self) -> bool {
        matches!(self, Self::Locks | Self::Handoff)
    }
}

/// Runs the benchmark and prints its rows.
///
/// # Errors
/// What kept it from measuring; an acknowledged move that the store has not.
pub(crate) async fn run(args: BenchArgs, output: &Output) -> Result<ExitCode, Failure> {
    let place = Place::find(args.store.as_deref())?;
    let keys = if args.scenario.is_one() { 1 } else { args.keys };
    let load = Load { clients: args.clients, keys, duration: Duration::from_secs(args.seconds.into()) };
    place.clean().await?;
    let bench = Bench { progress: report::Progress::new(load.duration), place, load, args };
    let measured = bench.all().await;
    bench.progress.done();
    bench.place.clean().await?;
    let (rows, store) = measured?;
    output.print(&report::render(&rows, &bench.load, &store, output))?;
    match rows.iter().find(|row| row.is_at_fault()) {
        Some(row) => Err(Failure::failed(format!(
            "{}: {} acknowledged moves differ from what the store has; please report this",
            row.name, row.lost
        ))),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// Strategies, with combining and bare.
const SHAPES: [(&str, Shape); 6] = [
    ("adaptive", Shape { strategy: "adaptive", combine: true }),
    ("optimistic", Shape { strategy: "optimistic", combine: true }),
    ("pessimistic", Shape { strategy: "pessimistic", combine: true }),
    ("adaptive, combine: false", Shape { strategy: "adaptive", combine: false }),
    ("optimistic, combine: false", Shape { strategy: "optimistic", combine: false }),
    ("pessimistic, combine: false", Shape { strategy: "pessimistic", combine: false }),
];

/// A benchmark under way.
struct Bench {
    args: BenchArgs,
    place: Place,
    load: Load,
    progress: report::Progress,
}

impl Bench {
    fn wants(&self, name: &str) -> bool {
        self.args.only.is_empty() || self.args.only.iter().any(|only| name.contains(only.as_str()))
    }

    /// All rows, and what the store calls itself.
    async fn all(&self) -> Result<(Vec<Row>, String), Failure> {
        if self.args.scenario == Scenario::Timers {
            return self.timers().await;
        }
        let mut rows = self.peers().await?;
        let store = store_url::open(&self.place.url).await?;
        let mut described = store.describe();
        if self.args.scenario.is_locks() {
            let measured = self.locks(store.clone(), &mut rows, &mut described).await;
            store.close().await;
            return measured.map(|()| (rows, described));
        }
        let engine = Engine::new(store, Options::default());
        let measured = self.ours(&engine, &mut rows).await;
        engine.shutdown().await;
        measured.map(|()| (rows, described))
    }

    /// Timers that are due at once. A file belongs to one process, so there it is one node.
    async fn timers(&self) -> Result<(Vec<Row>, String), Failure> {
        let mut rows = Vec::new();
        let mut described = String::new();
        let several = if matches!(self.place.kind, Kind::Disk(_)) { 1 } else { self.args.nodes };
        let mut each: Vec<(u32, u32)> = vec![(1, 0)];
        if several > 1 {
            each.push((several, 0));
        }
        if self.args.kills > 0 {
            each = vec![(several, self.args.kills)];
        }
        for (nodes, kills) in each {
            self.progress.next("timers");
            let timers = timers::Timers { url: self.place.url.clone(), keys: self.args.keys, nodes, kills };
            let (row, store) = timers.measure().await?;
            rows.push(row);
            described = store;
        }
        Ok((rows, described))
    }

    /// What the rows are compared with.
    async fn peers(&self) -> Result<Vec<Row>, Failure> {
        let load = self.load;
        let mut rows = match &self.place.kind {
            // Locks are compared with programs of their own.
            _ if self.args.scenario.is_locks() => Vec::new(),
            Kind::Disk(folder) => {
                self.progress.next("one synced commit at a time");
                let folder = folder.clone();
                let peer = tokio::task::spawn_blocking(move || baseline::sqlite::measure(&folder, load.duration));
                vec![peer.await.map_err(Failure::failed)??]
            }
            Kind::Database { plain, schema, .. } => {
                baseline::postgres::measure(plain, schema, &load, |name| self.progress.next(name)).await?
            }
        };
        for command in &self.args.peers {
            self.progress.next("a peer's own program");
            rows.extend(baseline::command::measure(command, &load).await?);
        }
        Ok(rows)
    }

    async fn ours(&self, engine: &Engine, rows: &mut Vec<Row>) -> Result<(), Failure> {
        self.one_node(engine, rows).await?;
        self.many_nodes(engine, rows).await?;
        self.http(engine, rows).await
    }

    async fn one_node(&self, engine: &Engine, rows: &mut Vec<Row>) -> Result<(), Failure> {
        for (name, shape) in SHAPES {
            if self.wants(name) {
                self.progress.next(name);
                let target = InProcess::prepare(std::slice::from_ref(engine), shape, self.load.keys).await?;
                rows.push(clients::measure(name, Arc::new(target), &self.load).await?);
            }
        }
        Ok(())
    }

    async fn locks(&self, store: Arc<dyn Store>, rows: &mut Vec<Row>, place: &mut String) -> Result<(), Failure> {
        let service = LocksUrl::parse(&self.args.locks)?.open(store, REDIS_MAX_TTL_DEFAULT).await?;
        *place = service.describe();
        // It may not have been met yet.
        service.ping().await.map_err(Failure::failed)?;
        if self.args.scenario == Scenario::Handoff {
            self.progress.next("hand-off");
            rows.push(hand_off::measure("hand-off", service.clone(), &self.load).await?);
        } else {
            for (name, way) in [("lock + unlock", Way::Calls), ("lock + unlock, renewed by a task", Way::Leases)] {
                self.progress.next(name);
                let target = LockTarget::new(service.clone(), way, self.load.keys);
                rows.push(clients::measure(name, Arc::new(target), &self.load).await?);
            }
        }
        service.close().await;
        Ok(())
    }

    /// Nodes that share the database, and nothing else. A file belongs to one process: there it is one node.
    async fn many_nodes(&self, engine: &Engine, rows: &mut Vec<Row>) -> Result<(), Failure> {
        let nodes = self.args.nodes;
        let name = format!("adaptive, {nodes} nodes");
        if matches!(self.place.kind, Kind::Disk(_)) || nodes < 2 || !self.wants(&name) {
            return Ok(());
        }
        self.progress.next(&name);
        let mut engines = vec![engine.clone()];
        for _ in 1..nodes {
            engines.push(Engine::new(store_url::open(&self.place.url).await?, Options::default()));
        }
        let measured = async {
            let target = InProcess::prepare(&engines, SHAPES[0].1, self.load.keys).await?;
            clients::measure(&name, Arc::new(target), &self.load).await
        }
        .await;
        for other in &engines[1..] {
            other.shutdown().await;
        }
        rows.push(measured?);
        Ok(())
    }

    async fn http(&self, engine: &Engine, rows: &mut Vec<Row>) -> Result<(), Failure> {
        const NAME: &str = "HTTP on loopback";
        if self.args.no_http || !self.wants(NAME) {
            return Ok(());
        }
        self.progress.next(NAME);
        let locks = Arc::new(Durable::open(engine.store().clone(), ServiceOptions::default()));
        let (listen, clock) = (([127, 0, 0, 1], 0).into(), Arc::new(SystemClock));
        let options = ServerOptions { listen, tls: None, clock, admins_only: false, metrics: Metrics::new() };
        let server = Server::start(engine.clone(), locks, options).await.map_err(Failure::failed)?;
        let target = Arc::new(HttpTarget::prepare(engine, &server.url(), self.load.keys).await?);
        let measured = clients::measure(NAME, target, &self.load).await;
        // The server ends the engine too: it is the last row.
        server.stop().await.map_err(Failure::failed)?;
        rows.push(measured?);
        Ok(())
    }
}
