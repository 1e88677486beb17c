//! Nodes to a draft: every field read and judged by itself. What needs the whole machine is the checker's.

use std::time::Duration;

use super::approval::ApprovalRule;
use super::fields::{Findings, join};
use super::lines::place_inside;
use super::node::{Field, Node, Place, Value};
use super::schema::DataSchema;
use super::{Concurrency, Judgement, Problem, Retention};
use crate::definition::suggestion::hint;
use crate::expression::kinds::Type;
use crate::expression::types::{self, Wanted};
use crate::expression::{Expression, Fault};
use crate::instance::Status;
use crate::limits::{ASSIGNS_MAX, PATTERNS_MAX, TRANSITIONS_MAX};
use crate::names::{WorkflowName, check_name};

/// A definition as it is written, targets still by name.
pub(super) struct Draft {
    pub(super) workflow: Option<WorkflowName>,
    pub(super) concurrency: Concurrency,
    pub(super) retention: Retention,
    pub(super) schema: Option<DataSchema>,
    /// What is allowed in it, but doubtful.
    pub(super) doubts: Vec<Problem>,
    pub(super) initial: Option<Target>,
    pub(super) states: Vec<DraftState>,
    /// Where `states` stands, for problems of the machine as a whole.
    pub(super) states_place: Place,
    /// Whether every state and every way out of one was read.
    pub(super) is_whole: bool,
    /// Transitions in the text; those past the limit are not read.
    pub(super) transitions: usize,
}

/// The name of a state, and where it is written.
pub(super) struct Target {
    pub(super) name: String,
    pub(super) place: Place,
    pub(super) path: String,
}

/// A state as it is written.
pub(super) struct DraftState {
    pub(super) name: String,
    pub(super) place: Place,
    pub(super) path: String,
    pub(super) ends_as: Option<Status>,
    /// Those of `on`, then those of `after`, each in the order of the text.
    pub(super) transitions: Vec<DraftTransition>,
}

/// A way back as it is written.
pub(super) enum DraftReturn {
    /// To the state before.
    Previous,
    /// To any state that the run has passed.
    Any,
    /// To those of these that the run has passed.
    To(Vec<Target>),
}

/// A transition as it is written.
pub(super) struct DraftTransition {
    /// The event; of an `after`, its time as it is written.
    pub(super) event: String,
    /// Taken by a timer, so long after its state was entered.
    pub(super) after: Option<Duration>,
    pub(super) position: usize,
    pub(super) place: Place,
    pub(super) path: String,
    pub(super) target: Option<Target>,
    pub(super) guard: Option<Expression>,
    pub(super) assigns: Vec<(String, Expression)>,
    pub(super) approval: Option<ApprovalRule>,
    /// The earlier states to which it leads back, instead of to a target.
    pub(super) back: Option<DraftReturn>,
    /// Whether its sender may take it back.
    pub(super) recall: bool,
    pub(super) roles: Vec<String>,
    pub(super) concurrency: Concurrency,
    /// Whether a guard was written, even one that does not compile.
    pub(super) is_guarded: bool,
}

/// Reads the whole text's node.
pub(super) fn read(text: &str, root: &Node, judgement: Judgement) -> (Draft, Vec<Problem>) {
    const KNOWN: &[&str] =
        &["workflow", "description", "initial", "concurrency", "consistency", "retention", "data", "states"];
    let mut findings = Findings::new(text, Vec::new());
    findings.judgement = judgement;
    let mut draft = Draft {
        workflow: None,
        concurrency: Concurrency::default(),
        retention: Retention::default(),
        schema: None,
        doubts: Vec::new(),
        initial: None,
        states: Vec::new(),
        states_place: root.place,
        is_whole: false,
        transitions: 0,
    };
    let fields = findings.block(root, "", KNOWN);
    let is_block = matches!(root.value, Value::Map(_) | Value::Null);
    for required in ["workflow", "initial", "states"] {
        if is_block && !fields.iter().any(|f| f.name == required) {
            let message = format!("the field `{required}` is missing");
            findings.add(root.place, "", message, format!("write `{required}` at the top level"));
        }
    }
    if let Some(field) = fields.iter().find(|field| field.name == "concurrency") {
        findings.workflow_concurrency(&field.node);
    }
    if let Some(field) = fields.iter().find(|field| field.name == "data") {
        draft.schema = findings.data(&field.node);
        findings.data_type = draft.schema.as_ref().map(|schema| schema.data_type().clone());
    }
    for field in fields {
        let node = &field.node;
        match field.name.as_str() {
            // Read before all others: transitions stand on them, wherever they are written.
            "concurrency" | "data" => {}
            "workflow" => draft.workflow = findings.workflow(node),
            "description" => drop(findings.text(node, "description")),
            "initial" => draft.initial = findings.target(node, "initial"),
            "consistency" => findings.consistency(node),
            "retention" => draft.retention = findings.retention(node),
            _ => {
                draft.states_place = field.place;
                draft.states = findings.states(node);
            }
        }
    }
    draft.is_whole = !findings.lost;
    draft.transitions = findings.transitions;
    draft.concurrency = findings.concurrency;
    draft.doubts = findings.doubts;
    (draft, findings.problems)
}

impl Findings<'_> {
    fn workflow(&mut self, node: &Node) -> Option<WorkflowName> {
        let name = self.text(node, "workflow")?;
        match WorkflowName::new(name) {
            Ok(name) => Some(name),
            Err(error) => {
                self.add(node.place, "workflow", error.to_string(), "write a name like `purchase-order`");
                None
            }
        }
    }

    fn target(&mut self, node: &Node, path: &str) -> Option<Target> {
        let Some(name) = self.name(node, path, "state") else { return self.lose() };
        Some(Target { name, place: node.place, path: path.to_owned() })
    }

    fn consistency(&mut self, node: &Node) {
        match self.text(node, "consistency") {
            Some("strong") | None => {}
            Some("available") => {
                self.not_built(
                    node.place,
                    "consistency",
                    "`consistency: available`",
                    "write `strong`, or remove the field",
                );
            }
            Some(other) => {
                let message = format!("unknown consistency {other:?}{}", hint(other, ["strong"]));
                self.add(node.place, "consistency", message, "write `strong`, or remove the field");
            }
        }
    }

    fn states(&mut self, node: &Node) -> Vec<DraftState> {
        let Value::Map(fields) = &node.value else {
            let message = format!("expected states by name, found {}", node.value.kind());
            self.add(
                node.place,
                "states",
                message,
                "write at least one state, for example `draft: {on: {submit: done}}`",
            );
            return Vec::new();
        };
        fields.iter().filter_map(|field| self.state(field)).collect()
    }

    fn state(&mut self, field: &Field) -> Option<DraftState> {
        let Field { name, place, node } = field;
        let path = join("states", name);
        if let Err(error) = check_name("state", name) {
            self.name_error(*place, &path, &error);
            return self.lose();
        }
        let fields = self.block(node, &path, &["description", "on", "after", "type", "status"]);
        let get = |wanted: &str| fields.iter().find(|f| f.name == wanted);
        if let Some(field) = get("description") {
            self.text(&field.node, &join(&path, "description"));
        }
        let is_final = get("type").is_some_and(|field| self.state_type(&field.node, &join(&path, "type")));
        let status = get("status").and_then(|field| self.status(field, &join(&path, "status"), is_final));
        let mut transitions = get("on").map(|field| self.on(field, &path, is_final)).unwrap_or_default();
        transitions.extend(get("after").map(|field| self.after(field, &path, is_final)).unwrap_or_default());
        let ends_as = is_final.then(|| status.unwrap_or(Status::Completed));
        Some(DraftState { name: name.clone(), place: *place, path, ends_as, transitions })
    }

    /// Whether the state is final.
    fn state_type(&mut self, node: &Node, path: &str) -> bool {
        let remedy = "write `final`, or remove the field";
        match self.text(node, path) {
            Some("final") => return true,
            Some(name @ ("parallel" | "history" | "compound")) => {
                self.not_built(node.place, path, &format!("`type: {name}`"), remedy);
            }
            Some(name) => {
                let message = format!("unknown type {name:?}{}", hint(name, ["final"]));
                self.add(node.place, path, message, remedy);
            }
            None => {}
        }
        self.lost = true;
        false
    }

    fn status(&mut self, field: &Field, path: &str, is_final: bool) -> Option<Status> {
        if !is_final {
            self.add(field.place, path, "only a final state has a status", "add `type: final`, or remove the status");
        }
        let node = &field.node;
        match self.text(node, path)? {
            "completed" => Some(Status::Completed),
            "failed" => Some(Status::Failed),
            other => {
                let message = format!("unknown status {other:?}{}", hint(other, ["completed", "failed"]));
                self.add(node.place, path, message, "write `completed` or `failed`");
                None
            }
        }
    }

    fn on(&mut self, field: &Field, state_path: &str, is_final: bool) -> Vec<DraftTransition> {
        let path = join(state_path, "on");
        if is_final {
            self.add(field.place, &path, "nothing leads on from a final state", "remove `on`, or `type: final`");
        }
        let node = &field.node;
        let Value::Map(events) = &node.value else {
            let message = format!("expected events by name, found {}", node.value.kind());
            self.add(node.place, &path, message, "write events, for example `{approve: approved}`");
            self.lost = true;
            return Vec::new();
        };
        events.iter().flat_map(|event| self.event(event, &path)).collect()
    }

    fn event(&mut self, field: &Field, on_path: &str) -> Vec<DraftTransition> {
        let Field { name, place, node } = field;
        let path = join(on_path, name);
        if let Err(error) = check_name("event", name) {
            self.name_error(*place, &path, &error);
            self.lost = true;
            return Vec::new();
        }
        match &node.value {
            Value::List(items) if items.is_empty() => {
                self.add(
                    node.place,
                    &path,
                    "an empty list of transitions",
                    "write a target state, or remove the event",
                );
                self.lost = true;
                Vec::new()
            }
            Value::List(items) => {
                let problems = self.problems.len();
                let read = |(at, item)| self.transition(name, at, item, format!("{path}[{at}]"));
                let transitions: Vec<_> = items.iter().enumerate().filter_map(read).collect();
                if self.problems.len() == problems {
                    self.check_same_concurrency(&transitions);
                }
                transitions
            }
            _ => self.transition(name, 0, node, path).into_iter().collect(),
        }
    }

    /// How a command commits is chosen before its guards are judged: it cannot depend on them.
    fn check_same_concurrency(&mut self, transitions: &[DraftTransition]) {
        for pair in transitions.windows(2).filter(|pair| pair[0].concurrency != pair[1].concurrency).take(1) {
            self.add(
                pair[1].place,
                &pair[1].path,
                "its `concurrency` differs from that of the one before it, but how a command commits is chosen before \
                 any guard is judged",
                "write the same `concurrency` in each transition of the list, or in none",
            );
        }
    }

    pub(super) fn transition(
        &mut self,
        event: &str,
        position: usize,
        node: &Node,
        path: String,
    ) -> Option<DraftTransition> {
        const KNOWN: &[&str] =
            &["description", "target", "return", "guard", "assign", "approval", "recall", "roles", "concurrency"];
        let mut transition = DraftTransition {
            event: event.to_owned(),
            after: None,
            position,
            place: node.place,
            path: path.clone(),
            target: None,
            guard: None,
            assigns: Vec::new(),
            approval: None,
            back: None,
            recall: false,
            roles: Vec::new(),
            concurrency: self.concurrency.clone(),
            is_guarded: false,
        };
        self.transitions += 1;
        if self.transitions > TRANSITIONS_MAX || self.is_full() {
            return self.lose();
        }
        match &node.value {
            Value::Text(_) => {
                transition.target = Some(self.target(node, &path)?);
                return Some(transition);
            }
            Value::Map(_) => {}
            other => {
                let message = format!("expected a target state or a block of fields, found {}", other.kind());
                self.add(node.place, &path, message, "write a state's name, or `{}` for an event that changes nothing");
                return self.lose();
            }
        }
        for field in self.block(node, &path, KNOWN) {
            let (node, path) = (&field.node, join(&path, &field.name));
            match field.name.as_str() {
                "description" => drop(self.text(node, &path)),
                "target" => transition.target = self.target(node, &path),
                "guard" => {
                    transition.is_guarded = true;
                    transition.guard = self.expression(node, &path, Wanted::Truth);
                }
                "assign" => transition.assigns = self.assigns(node, &path),
                "approval" => transition.approval = self.approval(node, &path),
                "return" => transition.back = self.back(node, &path),
                "recall" => transition.recall = self.bool(node, &path).unwrap_or_default(),
                "concurrency" => transition.concurrency = self.transition_concurrency(node, &path),
                _ => transition.roles = self.roles(node, &path),
            }
        }
        Some(transition)
    }

    /// `previous`, `any`, or the states.
    fn back(&mut self, node: &Node, path: &str) -> Option<DraftReturn> {
        match &node.value {
            Value::Text(text) if text == "previous" => Some(DraftReturn::Previous),
            Value::Text(text) if text == "any" => Some(DraftReturn::Any),
            Value::List(items) if !items.is_empty() => {
                let target = |(at, item)| self.target(item, &format!("{path}[{at}]"));
                items.iter().enumerate().map(target).collect::<Option<Vec<_>>>().map(DraftReturn::To)
            }
            _ => {
                let remedy = "write `previous`, `any`, or a list of states: `[draft, review]`";
                self.add(node.place, path, "not a way back", remedy);
                self.lose()
            }
        }
    }

    fn assigns(&mut self, node: &Node, path: &str) -> Vec<(String, Expression)> {
        let Value::Map(fields) = &node.value else {
            let message = format!("expected fields of the data, found {}", node.value.kind());
            self.add(node.place, path, message, "write fields with expressions, for example `{amount: event.amount}`");
            return Vec::new();
        };
        let mut assigns = Vec::new();
        for field in fields {
            let path = join(path, &field.name);
            if let Err(error) = check_name("data field", &field.name) {
                self.name_error(field.place, &path, &error);
            }
            let expression = self.expression(&field.node, &path, Wanted::Field(&field.name));
            assigns.extend(expression.map(|expression| (field.name.clone(), expression)));
        }
        if fields.len() > ASSIGNS_MAX {
            let message = format!("{} fields are assigned; at most {ASSIGNS_MAX} are allowed", fields.len());
            self.add(node.place, path, message, "assign one field that holds several, or split the event");
        }
        assigns
    }

    /// A CEL expression; a bare number, truth value or null stands for itself.
    fn expression(&mut self, node: &Node, path: &str, wanted: Wanted<'_>) -> Option<Expression> {
        let expression = self.expression_by(node, path, Expression::compile)?;
        let known = self.data_type.is_some();
        let data = self.data_type.clone().unwrap_or(Type::ANY);
        let text = expression.text();
        let found = types::check(text, &data, wanted);
        for fault in found.faults {
            let place = place_inside(&self.lines, node.place, text, fault.offset);
            // Without a schema it was never refused.
            if known {
                self.judge(place, path, fault.message, fault.remedy);
            } else {
                self.doubt(place, path, fault.message, fault.remedy);
            }
        }
        for fault in found.doubts {
            let place = place_inside(&self.lines, node.place, text, fault.offset);
            self.doubt(place, path, fault.message, fault.remedy);
        }
        Some(expression)
    }

    /// The same for a purpose of its own.
    pub(super) fn expression_by(
        &mut self,
        node: &Node,
        path: &str,
        compile: fn(&str) -> Result<Expression, Vec<Fault>>,
    ) -> Option<Expression> {
        let text = match &node.value {
            Value::Text(text) => text.clone(),
            Value::Null => "null".to_owned(),
            Value::Bool(value) => value.to_string(),
            Value::Int(value) => value.to_string(),
            Value::Float(value) => format!("{value:?}"),
            other => {
                let message = format!("expected a CEL expression, found {}", other.kind());
                self.add(node.place, path, message, "write the expression as a text in quotes");
                return None;
            }
        };
        match compile(&text) {
            Ok(expression) => {
                self.patterns += expression.patterns();
                if self.patterns > PATTERNS_MAX {
                    let message = format!("more than {PATTERNS_MAX} regular expressions in one definition");
                    self.add(node.place, path, message, "compare with ==, startsWith or contains where that will do");
                    return None;
                }
                Some(expression)
            }
            Err(faults) => {
                for fault in faults {
                    let place = place_inside(&self.lines, node.place, &text, fault.offset);
                    self.add(place, path, fault.message, fault.remedy);
                }
                None
            }
        }
    }
}
