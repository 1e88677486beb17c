//! What the clients send to: the engine itself, or a server through HTTP.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};

use lockkeeper_engine::{DefinitionText, Engine};
use lockkeeper_model::{
    Action, Actor, Command, Format, InstanceKey, Send as SendEvent, Start, SuccessKind, WorkflowName,
};
use uuid::Uuid;

use crate::failure::Failure;

/// The move that is measured: a transition without a guard, as the peers' moves are.
const EVENT: &str = "turn";

/// Instances that are started, or read, at once while a run is prepared and checked.
const PREPARE_AT_ONCE: usize = 64;

pub(crate) type Answer<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Something that can move instances.
pub(crate) trait Target: Send + Sync + 'static {
    /// Moves one instance for one client; whether it was acknowledged as `applied`.
    fn step(&self, client: u32, key: u32) -> Answer<'_, bool>;

    /// The versions of all instances, added up.
    fn versions(&self) -> Answer<'_, Result<i64, Failure>>;

    /// The moves that each node has acknowledged so far; none where there are no nodes.
    fn moves(&self) -> Vec<u64> {
        Vec::new()
    }
}

/// How the benchmark's workflow commits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) strategy: &'static str,
    pub(crate) combine: bool,
}

/// The engine of one node or of several, without HTTP.
pub(crate) struct InProcess {
    engines: Vec<Engine>,
    moves: Vec<AtomicU64>,
    keys: Vec<InstanceKey>,
    actor: Actor,
}

/// A server on this machine, through HTTP.
pub(crate) struct HttpTarget {
    http: reqwest::Client,
    urls: Vec<String>,
    inside: InProcess,
}

impl InProcess {
    /// Puts the benchmark's workflow and starts its instances. Clients take the nodes in turn.
    pub(crate) async fn prepare(engines: &[Engine], shape: Shape, keys: u32) -> Result<Self, Failure> {
        let engine = engines.first().ok_or_else(|| Failure::failed("a benchmark needs a node"))?;
        let Shape { strategy, combine } = shape;
        let name = format!("bench_{strategy}{}", if combine { "" } else { "_bare" });
        let workflow = WorkflowName::new(&name).map_err(Failure::failed)?;
        let actor = Actor::new("bench", [], false).map_err(Failure::failed)?;
        let text = format!(
            "workflow: {name}\ninitial: turning\nconcurrency: {{strategy: {strategy}, combine: {combine}}}\n\
             states:\n  turning:\n    on:\n      {EVENT}: turning\n      stop: stopped\n  stopped: {{type: final}}\n"
        );
        let put = DefinitionText { format: Format::Yaml, text, actor: actor.clone(), at: engine.clock().now() };
        engine.put_definition(&workflow, put).await.map_err(Failure::failed)?;
        let run = Uuid::new_v4();
        let key = |n| InstanceKey::new(&name, &format!("{run}-{n}")).map_err(Failure::failed);
        let keys = (0..keys).map(key).collect::<Result<Vec<_>, _>>()?;
        let moves = engines.iter().map(|_| AtomicU64::new(0)).collect();
        let target = Self { engines: engines.to_vec(), moves, keys, actor };
        target.start_all().await?;
        Ok(target)
    }

    async fn start_all(&self) -> Result<(), Failure> {
        for some in self.keys.chunks(PREPARE_AT_ONCE) {
            let mut starts = tokio::task::JoinSet::new();
            for instance in some {
                let start = Start { run: Uuid::new_v4(), ..Start::default() };
                let command = self.command(instance.clone(), Action::Start(start));
                let engine = self.engines[0].clone();
                starts.spawn(async move { engine.send(command, None).await.result });
            }
            while let Some(started) = starts.join_next().await {
                started.map_err(Failure::failed)?.map_err(Failure::failed)?;
            }
        }
        Ok(())
    }

    fn command(&self, instance: InstanceKey, action: Action) -> Command {
        Command { instance, action, actor: self.actor.clone(), idempotency_key: None }
    }
}

impl Target for InProcess {
    fn step(&self, client: u32, key: u32) -> Answer<'_, bool> {
        let node = client as usize % self.engines.len();
        let send = SendEvent { event: Some(EVENT.to_owned()), ..SendEvent::default() };
        let command = self.command(self.keys[key as usize].clone(), Action::Send(send));
        Box::pin(async move {
            let answer = self.engines[node].send(command, None).await;
            let applied = answer.result.is_ok_and(|success| success.outcome == SuccessKind::Applied);
            self.moves[node].fetch_add(u64::from(applied), Ordering::Relaxed);
            applied
        })
    }

    fn moves(&self) -> Vec<u64> {
        self.moves.iter().map(|moves| moves.load(Ordering::Relaxed)).collect()
    }

    fn versions(&self) -> Answer<'_, Result<i64, Failure>> {
        Box::pin(async move {
            let mut sum = 0;
            for key in &self.keys {
                sum += self.engines[0].instance(key, false).await.map_err(Failure::failed)?.version;
            }
            Ok(sum)
        })
    }
}

impl HttpTarget {
    /// Puts the benchmark's workflow and starts its instances, then talks to `url`.
    pub(crate) async fn prepare(engine: &Engine, url: &str, keys: u32) -> Result<Self, Failure> {
        let shape = Shape { strategy: "adaptive", combine: true };
        let inside = InProcess::prepare(std::slice::from_ref(engine), shape, keys).await?;
        let url = |key: &InstanceKey| format!("{url}/v1/workflows/{}/instances/{}/events", key.workflow, key.id);
        let urls = inside.keys.iter().map(url).collect();
        // reqwest is built without a provider of its own; another part of the process may have chosen one before.
        let _already_chosen = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().no_proxy().build().map_err(Failure::failed)?;
        Ok(Self { http, urls, inside })
    }
}

impl Target for HttpTarget {
    fn step(&self, _client: u32, key: u32) -> Answer<'_, bool> {
        let request = self.http.post(&self.urls[key as usize]).body(format!(r#"{{"event":"{EVENT}"}}"#));
        Box::pin(async move {
            let Ok(response) = request.send().await else { return false };
            // The body is read to its end, so that the connection is used again.
            response.status().is_success() && response.text().await.is_ok_and(|text| text.contains(r#""applied""#))
        })
    }

    fn versions(&self) -> Answer<'_, Result<i64, Failure>> {
        self.inside.versions()
    }
}
