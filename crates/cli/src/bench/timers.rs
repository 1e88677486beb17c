//! Timers that are all due at once: how many fire in a second, and whether each does so once, over kills as well.

use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockkeeper_engine::{Clock, DefinitionText, Engine, InstanceQuery, Options, SystemClock};
use lockkeeper_model::{Action, Actor, Command, Format, Instance, InstanceKey, Start, Timestamp, WorkflowName};
use lockkeeper_store::Store;
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::bench::clients::{Cpu, Latencies};
use crate::bench::row::Row;
use crate::failure::Failure;
use crate::store_url;

/// Instances that are started at once while the run is prepared.
const PREPARE_AT_ONCE: usize = 256;

/// How long a server that is to be killed works before.
const KILL_AFTER: Duration = Duration::from_secs(1);

/// How often it is looked whether any timer is left.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How long nothing may fire before the run is given up: twice as long as what a killed node has claimed is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// The largest page of a list.
const PAGE: usize = 1_000;

/// What is measured.
pub(crate) struct Timers {
    pub(crate) url: String,
    /// Instances, each with a timer.
    pub(crate) keys: u32,
    /// So many nodes fire them.
    pub(crate) nodes: u32,
    /// So many servers are killed (SIGKILL) at work first.
    pub(crate) kills: u32,
}

impl Timers {
    /// Starts the instances on a node that fires nothing, and then lets the others at them.
    ///
    /// # Errors
    /// What kept it from measuring.
    pub(crate) async fn measure(&self) -> Result<(Row, String), Failure> {
        let workflow =
            WorkflowName::new(&format!("bench_timers_{}", Uuid::new_v4().simple())).map_err(Failure::failed)?;
        let store = store_url::open(&self.url).await?;
        let described = store.describe();
        let quiet = Engine::new(store, Options { timers_poll: None, ..Options::default() });
        let prepared = self.prepare(&quiet, &workflow).await;
        quiet.shutdown().await;
        prepared?;
        let (cpu, begun, begun_at) = (Cpu::now(), Instant::now(), SystemClock.now());
        for _ in 0..self.kills {
            kill_at_work(&self.url).await?;
        }
        let engines = self.open().await?;
        let done = finished(&engines, &workflow).await;
        let wall = begun.elapsed();
        let cpu = cpu.share(wall);
        let counted = match done {
            Ok(()) => count(&engines[0], &workflow, begun_at).await,
            Err(failure) => Err(failure),
        };
        for engine in &engines {
            engine.shutdown().await;
        }
        let latencies = counted?;
        let lost = i64::from(self.keys) - i64::try_from(latencies.count()).unwrap_or(i64::MAX);
        Ok((Row::measured(&self.name(), &latencies, 0, wall, cpu, lost), described))
    }

    fn name(&self) -> String {
        let nodes = if self.nodes == 1 { "one node".to_owned() } else { format!("{} nodes", self.nodes) };
        let killed = if self.kills == 0 { String::new() } else { format!(", {} killed before", self.kills) };
        format!("timers due at once, {nodes}{killed}")
    }

    /// Nodes that share the store. Of a file there is one handle.
    async fn open(&self) -> Result<Vec<Engine>, Failure> {
        let mut stores: Vec<Arc<dyn Store>> = vec![store_url::open(&self.url).await?];
        for _ in 1..self.nodes {
            stores.push(store_url::open(&self.url).await?);
        }
        Ok(stores.into_iter().map(|store| Engine::new(store, Options::default())).collect())
    }

    async fn prepare(&self, engine: &Engine, workflow: &WorkflowName) -> Result<(), Failure> {
        let actor = Actor::new("bench", [], false).map_err(Failure::failed)?;
        let text = format!(
            "workflow: {workflow}\ninitial: waiting\nstates:\n  waiting: {{after: {{1ms: fired}}}}\n  fired: {{type: final}}\n"
        );
        let put = DefinitionText { format: Format::Yaml, text, actor: actor.clone(), at: engine.clock().now() };
        engine.put_definition(workflow, put).await.map_err(Failure::failed)?;
        let mut starts = JoinSet::new();
        for n in 0..self.keys {
            let command = Command {
                instance: InstanceKey::new(workflow.as_str(), &n.to_string()).map_err(Failure::failed)?,
                action: Action::Start(Start { run: Uuid::new_v4(), ..Start::default() }),
                actor: actor.clone(),
                idempotency_key: None,
            };
            if starts.len() >= PREPARE_AT_ONCE {
                joined(&mut starts).await?;
            }
            let engine = engine.clone();
            starts.spawn(async move { engine.send(command, None).await.result.map(drop) });
        }
        while !starts.is_empty() {
            joined(&mut starts).await?;
        }
        Ok(())
    }
}

async fn joined(starts: &mut JoinSet<Result<(), lockkeeper_model::Refusal>>) -> Result<(), Failure> {
    match starts.join_next().await {
        Some(started) => started.map_err(Failure::failed)?.map_err(Failure::failed),
        None => Ok(()),
    }
}

/// Starts a server of this very program, and kills it while it fires.
async fn kill_at_work(url: &str) -> Result<(), Failure> {
    let program = std::env::current_exe().map_err(Failure::failed)?;
    let mut server = tokio::process::Command::new(program);
    server.args(["serve", "--listen", "127.0.0.1:0", "--store", url]);
    server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let mut server = server.spawn().map_err(Failure::failed)?;
    tokio::time::sleep(KILL_AFTER).await;
    // SIGKILL, and its end.
    server.kill().await.map_err(Failure::failed)
}

/// Waits until no instance waits any more.
async fn finished(engines: &[Engine], workflow: &WorkflowName) -> Result<(), Failure> {
    let fired = || engines.iter().map(|engine| engine.timer_figures().fired).sum::<u64>();
    let (mut seen, mut since) = (fired(), Instant::now());
    loop {
        let waiting = InstanceQuery { state: Some("waiting".to_owned()), limit: 1, ..InstanceQuery::default() };
        let page = engines[0].instances(workflow, waiting).await.map_err(Failure::failed)?;
        if page.items.is_empty() && page.next.is_none() {
            return Ok(());
        }
        if fired() > seen {
            (seen, since) = (fired(), Instant::now());
        }
        if since.elapsed() > PATIENCE {
            return Err(Failure::failed(format!("no timer has fired for {PATIENCE:?}, and some are left")));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// How long after the beginning each fired, for those that fired exactly once: the start is their first version, the timer
/// their second and last.
async fn count(engine: &Engine, workflow: &WorkflowName, begun: Timestamp) -> Result<Latencies, Failure> {
    let mut latencies = Latencies::default();
    let mut cursor = None;
    loop {
        let query = InstanceQuery { cursor, limit: PAGE, ..InstanceQuery::default() };
        let page = engine.instances(workflow, query).await.map_err(Failure::failed)?;
        let once = |instance: &&Instance| instance.version == 2 && instance.state == "fired";
        for instance in page.items.iter().map(|(_, instance)| instance).filter(once) {
            latencies.record((instance.updated_at - begun).to_std().unwrap_or_default());
        }
        cursor = page.next;
        if cursor.is_none() {
            return Ok(latencies);
        }
    }
}
