//! Events: what moves an instance.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use lockkeeper_model::{Act, Action, Command, Data, InstanceKey, Send};
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::app::AppState;
use crate::auth::{ActorBody, Caller};
use crate::body::{self, Key};
use crate::closed::SendModeName;
use crate::path::InstancePath;
use crate::problem::{Problem, malformed};
use crate::routes::not_built;
use crate::views::{self, ProblemView, SuccessView};

/// An event with its conditions. At least one of `event` and `to` is needed, except with `recall`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EventBody {
    /// The event.
    event: Option<String>,
    /// The state to reach; alone, it must match exactly one transition.
    to: Option<String>,
    /// The state that the sender believes the instance to be in.
    from: Option<String>,
    /// The version that the sender saw.
    expected_version: Option<i64>,
    /// The run that the sender means.
    run: Option<Uuid>,
    /// Who acts, where it is not the token's principal.
    actor: Option<ActorBody>,
    /// What guards and assigns see as `event`.
    #[serde(default)]
    #[schema(value_type = Object)]
    data: Data,
    /// Only `sync` in this version.
    #[schema(value_type = Option<SendModeName>, example = "sync")]
    mode: Option<String>,
    /// How long the sender waits for the answer, in milliseconds: at most 30,000 (the default).
    wait_ms: Option<u64>,
    /// Not in this version.
    #[schema(value_type = Option<i64>)]
    priority: Option<Value>,
    /// Fences of locks that the sender holds, by the locks' names: 16 at most, each from 1 to 2^53 - 1. The change is
    /// made only if none of these locks has shown a newer one.
    #[serde(default)]
    #[schema(example = json!({"inventory/sku-1": 1834503982415872_i64}))]
    fences: BTreeMap<String, i64>,
    /// Instead of voting for the event: hands the sender's vote to this actor, where the approval allows it.
    #[schema(example = "zoe")]
    delegate_to: Option<String>,
    /// Instead of voting for the event: adds this actor to those who must agree, where the approval allows it.
    #[schema(example = "zoe")]
    add_approver: Option<String>,
    /// Instead of sending the event: takes back what the sender did by it last (a vote, a delegation, an added approver,
    /// or the move that led here), where the definition allows it. `event` may be left out where that is clear.
    recall: Option<bool>,
}

impl EventBody {
    /// What is to be done about the event instead of sending it.
    fn act(&self) -> Result<Option<Act>, Problem> {
        let delegate = self.delegate_to.clone().map(|to| Act::Delegate { to });
        let add = self.add_approver.clone().map(|id| Act::AddApprover { id });
        let recall = self.recall.unwrap_or_default().then_some(Act::Recall);
        let mut acts = delegate.into_iter().chain(add).chain(recall);
        match (acts.next(), acts.next()) {
            (act, None) => Ok(act),
            _ => Err(malformed("of `delegate_to`, `add_approver` and `recall` one may be given")),
        }
    }

    /// The command, and how long its sender waits.
    pub(crate) fn command(
        self,
        instance: InstanceKey,
        caller: &Caller,
        key: Option<String>,
    ) -> Result<(Command, Option<Duration>), Problem> {
        if let Some(mode) = self.mode.as_deref().filter(|mode| *mode != "sync") {
            return Err(malformed(format!("`mode`: only `sync` is in this version, not {mode:?}")));
        }
        not_built("priority", self.priority.is_some())?;
        let act = self.act()?;
        if act != Some(Act::Recall) && self.event.is_none() && self.to.is_none() {
            return Err(malformed(
                "neither `event` nor `to` is given: say which event to send, or which state to reach",
            ));
        }
        let send = Send {
            event: self.event,
            to: self.to,
            from: self.from,
            expected_version: self.expected_version,
            run: self.run,
            data: self.data,
            fences: self.fences,
            act,
        };
        let actor = caller.actor(self.actor)?;
        let command = Command { instance, action: Action::Send(send), actor, idempotency_key: key };
        Ok((command, self.wait_ms.map(Duration::from_millis)))
    }
}

/// Sends an event.
#[utoipa::path(
    post, path = "/v1/workflows/{workflow}/instances/{id}/events", operation_id = "send_event", tag = "instances",
    params(
        ("workflow" = String, Path, description = "[a-z][a-z0-9_-]{0,63}"),
        ("id" = String, Path, description = "The instance's id, percent-encoded"),
        ("Idempotency-Key" = Option<String>, Header, description = "Sent again with the same key, an event takes effect once")
    ),
    request_body = EventBody,
    responses(
        (status = 200, description = "`applied`, `already_applied`, `pending_approval`; `Idempotency-Replayed: true` where it \
                                      is the first outcome again", body = SuccessView),
        (status = 409, description = "`state_mismatch`, `version_mismatch`, `conflict`, `fenced`, `lock_timeout`, `key_reused`, `act_refused`",
         body = ProblemView, content_type = "application/problem+json"),
        (status = 422, description = "`guard_rejected`, `guard_error`, `unknown_event`, `ambiguous_target`",
         body = ProblemView, content_type = "application/problem+json"),
        (status = "default", description = "Refused", body = ProblemView, content_type = "application/problem+json")
    )
)]
pub(crate) async fn send(
    State(state): State<AppState>,
    caller: Caller,
    InstancePath(instance): InstancePath,
    Key(key): Key,
    body::Json(body): body::Json<EventBody>,
) -> Result<Response, Problem> {
    let keyed = key.is_some();
    let (command, wait) = body.command(instance, &caller, key)?;
    views::answer(StatusCode::OK, state.engine.send(command, wait).await, keyed)
}
