//! Symfony's Workflow component, type `state_machine`, as YAML (<https://symfony.com/doc/current/workflow.html>): places,
//! and transitions from one or several of them to one.

use super::Options;
use super::chart::{Chart, ChartState, Guard, Trigger, Way, fitting};
use super::presence::{Declared, Doubt};
use super::script::{Language, Script};
use crate::definition::fields::join;
use crate::definition::{Field, Node, Problem, Value};

/// What binds a workflow to PHP.
const OF_PHP: &[&str] = &[
    "supports",
    "support_strategy",
    "marking_store",
    "audit_trail",
    "events_to_dispatch",
    "definition_validators",
    "enabled",
];

/// The property that holds a subject's place where no other is named.
const MARKING: &str = "marking";

/// Whether a YAML text has Symfony's fields and none of a definition's.
pub(super) fn is_workflow(text: &str) -> bool {
    let has = |name: &str| {
        text.lines()
            .any(|line| line.trim_start().strip_prefix(name).is_some_and(|rest| rest.trim_start().starts_with(':')))
    };
    let is_own = text.lines().any(|line| line.starts_with("workflow:") || line.starts_with("states:"));
    !is_own && has("places") && has("transitions")
}

/// Reads a workflow. Of what YAML has swallowed in the text only that matters which stands in it: a file has much else, and
/// other tags mean something there.
pub(super) fn read(root: &Node, swallowed: Vec<Problem>, options: &Options) -> Chart {
    let mut reader = Reader { chart: Chart::default(), options, marking: MARKING.to_owned() };
    reader.environments(root);
    if let Some((name, path, node)) = reader.workflow(root) {
        reader.chart.name = name;
        reader.chart.problems.extend(swallowed.into_iter().filter(|problem| is_within(problem, &node)));
        reader.machine(&node, &path);
    }
    reader.chart
}

/// Whether a problem stands in one of the fields of a workflow that are carried over.
fn is_within(problem: &Problem, workflow: &Node) -> bool {
    let Value::Map(fields) = &workflow.value else { return true };
    let mut read = fields.iter().filter(|field| !OF_PHP.contains(&field.name.as_str()));
    read.any(|field| (field.place.line..=last_line(&field.node)).contains(&problem.line))
}

/// The last line on which something in it begins.
fn last_line(node: &Node) -> u64 {
    let inside = match &node.value {
        Value::List(items) => items.iter().map(last_line).max(),
        Value::Map(fields) => fields.iter().map(|field| last_line(&field.node)).max(),
        _ => None,
    };
    inside.unwrap_or_default().max(node.place.line)
}

fn field<'n>(node: &'n Node, name: &str) -> Option<&'n Field> {
    match &node.value {
        Value::Map(fields) => fields.iter().find(|field| field.name == name),
        _ => None,
    }
}

fn text(node: &Node) -> Option<String> {
    match &node.value {
        Value::Text(text) => Some(text.clone()),
        Value::Int(number) => Some(number.to_string()),
        _ => None,
    }
}

/// A text, or a list of texts, each with its node.
fn texts(node: &Node) -> Vec<(Option<String>, &Node)> {
    match &node.value {
        Value::List(items) => items.iter().map(|item| (text(item), item)).collect(),
        _ => vec![(text(node), node)],
    }
}

struct Reader<'o> {
    chart: Chart,
    options: &'o Options,
    /// The subject's property that holds its place.
    marking: String,
}

impl Reader<'_> {
    /// What an environment adds is not read.
    fn environments(&mut self, root: &Node) {
        let Value::Map(fields) = &root.value else { return };
        for Field { name, place, node } in fields.iter().filter(|field| field.name.starts_with("when@")) {
            if field(node, "framework").is_some_and(|framework| field(&framework.node, "workflows").is_some()) {
                let message = format!("what `{name}` changes in the workflows there is not carried over");
                self.chart.lose(*place, name, message, "write it into the workflow, or into one of its own");
            }
        }
    }

    /// The workflow that is meant, with its name and its path.
    fn workflow(&mut self, root: &Node) -> Option<(Option<String>, String, Node)> {
        let (mut node, mut path) = (root, String::new());
        for wrapper in ["framework", "workflows"] {
            if let Some(found) = field(node, wrapper) {
                path = join(&path, wrapper);
                node = &found.node;
            }
        }
        if field(node, "places").is_some() {
            return Some((None, path, node.clone()));
        }
        let Value::Map(named) = &node.value else {
            self.chart.problem(node.place, &path, "there is no workflow in it", "write `framework: {workflows: ...}`");
            return None;
        };
        let wanted = self.options.workflow.as_ref().map(|name| name.as_str());
        let found: Vec<&Field> = match named.as_slice() {
            [one] => vec![one],
            many => many
                .iter()
                .filter(|field| {
                    wanted == Some(field.name.replace('_', "-").as_str()) || wanted == Some(&fitting(&field.name))
                })
                .collect(),
        };
        let [field] = found.as_slice() else {
            let names: Vec<String> = named.iter().map(|field| fitting(&field.name)).collect();
            let message = format!("there are {} workflows in it", names.len());
            self.chart.problem(node.place, &path, message, format!("name one by --workflow: {}", names.join(", ")));
            return None;
        };
        Some((Some(field.name.clone()), join(&path, &field.name), field.node.clone()))
    }

    fn machine(&mut self, node: &Node, path: &str) {
        self.chart.add(None, ChartState { place: node.place, path: path.to_owned(), ..ChartState::default() });
        let Value::Map(fields) = &node.value else {
            return self.chart.problem(
                node.place,
                path,
                "a workflow is a block of fields",
                "write `places` and `transitions`",
            );
        };
        let get = |name: &str| fields.iter().find(|field| field.name == name);
        match get("places") {
            Some(places) => self.places(&places.node, &join(path, "places")),
            None => self.chart.problem(node.place, path, "the field `places` is missing", "write the places"),
        }
        if let Some(property) = get("marking_store").and_then(|store| field(&store.node, "property")) {
            self.marking = text(&property.node).unwrap_or_default();
        }
        for Field { name, place, node } in fields {
            let path = join(path, name);
            match name.as_str() {
                "places" => {}
                "type" => self.kind(node, &path),
                "initial_marking" | "initial_place" => self.initial(node, &path),
                "transitions" => self.transitions(node, &path),
                "metadata" => self.metadata(node, &path),
                _ if OF_PHP.contains(&name.as_str()) => {
                    self.chart.note(
                        *place,
                        &path,
                        format!("`{name}` concerns the PHP side, and means nothing here"),
                        "",
                    );
                }
                _ => self.chart.lose(
                    *place,
                    &path,
                    format!("the field {name:?} is not known"),
                    "remove it if it means nothing",
                ),
            }
        }
        if self.chart.states[0].initial.is_none() {
            // As Symfony has it: the first place.
            self.chart.states[0].initial = self.chart.states[0].children.first().copied();
        }
        // Where nothing leads on, Symfony's run is at its end without saying so.
        for at in 1..self.chart.states.len() {
            if self.chart.states[at].ways.is_empty() {
                self.chart.states[at].is_final = true;
            }
        }
    }

    fn kind(&mut self, node: &Node, path: &str) {
        match text(node).as_deref() {
            Some("state_machine") => {}
            Some("workflow") => {
                let message = "`type: workflow` cannot be carried over: it may be in several places at once";
                self.chart.problem(node.place, path, message, "write `state_machine`, if it is in one place at a time");
            }
            _ => self.chart.problem(node.place, path, "the type is not known", "write `state_machine`"),
        }
    }

    fn places(&mut self, node: &Node, path: &str) {
        match &node.value {
            Value::Map(fields) => {
                for Field { name, place: _, node } in fields {
                    self.place(name.clone(), node, &join(path, name));
                }
            }
            Value::List(items) => {
                for (n, item) in items.iter().enumerate() {
                    let path = format!("{path}[{n}]");
                    let name = text(item).or_else(|| field(item, "name").and_then(|name| text(&name.node)));
                    match name {
                        Some(name) => self.place(name, item, &path),
                        None => self.chart.problem(item.place, &path, "a place has no name", "write its name"),
                    }
                }
            }
            other => {
                let message = format!("places by name, not {}", other.kind());
                self.chart.problem(node.place, path, message, "write a list of names");
            }
        }
    }

    fn place(&mut self, name: String, node: &Node, path: &str) {
        if self.chart.is_full() || self.chart.is_too_long(&name, node.place, path) {
            return;
        }
        if self.find(&name).is_some() {
            self.chart.problem(node.place, path, format!("the place {name:?} is written twice"), "keep one of them");
        }
        let state = ChartState { name, place: node.place, path: path.to_owned(), ..ChartState::default() };
        let at = self.chart.add(Some(0), state);
        self.place_fields(at, node, path);
    }

    fn place_fields(&mut self, at: usize, node: &Node, path: &str) {
        let Value::Map(fields) = &node.value else { return };
        for field in fields.iter().filter(|field| field.name != "name") {
            match field.name.as_str() {
                "metadata" => self.chart.states[at].description = self.described(&field.node, path),
                other => {
                    let message = format!("the field {other:?} is not known");
                    self.chart.lose(field.place, path, message, "remove it if it means nothing");
                }
            }
        }
    }

    /// The description in metadata; whatever else is there is lost.
    fn described(&mut self, node: &Node, path: &str) -> Option<String> {
        let Value::Map(fields) = &node.value else { return None };
        for field in fields.iter().filter(|field| field.name != "description") {
            let message = format!("the metadata {:?} is not carried over", field.name);
            self.chart.note(field.place, path, message, "keep it where it is looked at");
        }
        fields.iter().find(|field| field.name == "description").and_then(|field| text(&field.node))
    }

    fn metadata(&mut self, node: &Node, path: &str) {
        self.chart.description = self.described(node, path);
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.chart.states.iter().skip(1).position(|state| state.name == name).map(|at| at + 1)
    }

    fn initial(&mut self, node: &Node, path: &str) {
        match texts(node).as_slice() {
            [(Some(name), node)] => self.chart.states[0].initial = self.known(name, node, path),
            _ => self.chart.problem(node.place, path, "a run begins in one place", "name one place"),
        }
    }

    fn known(&mut self, name: &str, node: &Node, path: &str) -> Option<usize> {
        let found = self.find(name);
        if found.is_none() && !self.chart.is_full_of_problems() {
            let known: Vec<&str> = self.chart.states.iter().skip(1).map(|state| state.name.as_str()).collect();
            let hint = crate::definition::suggestion::hint(name, known.iter().copied());
            let remedy = format!("write one of the places: {}", known.join(", "));
            self.chart.problem(node.place, path, format!("there is no place {name:?}{hint}"), remedy);
        }
        found
    }

    fn transitions(&mut self, node: &Node, path: &str) {
        match &node.value {
            Value::Map(fields) => {
                for Field { name, node, .. } in fields {
                    self.transition(name, node, &join(path, name));
                }
            }
            Value::List(items) => {
                for (n, item) in items.iter().enumerate() {
                    let path = format!("{path}[{n}]");
                    match field(item, "name").and_then(|name| text(&name.node)) {
                        Some(name) => self.transition(&name, item, &path),
                        None => self.chart.problem(item.place, &path, "a transition has no name", "write `name`"),
                    }
                }
            }
            other => {
                let message = format!("transitions by name, not {}", other.kind());
                self.chart.problem(node.place, path, message, "write `name: {from: ..., to: ...}`");
            }
        }
    }

    fn transition(&mut self, name: &str, node: &Node, path: &str) {
        let Value::Map(fields) = &node.value else {
            return self.chart.problem(
                node.place,
                path,
                "a transition is a block of fields",
                "write `{from: ..., to: ...}`",
            );
        };
        let (mut guard, mut description, mut from, mut to) = (None, None, None, None);
        for Field { name, place, node } in fields {
            let path = join(path, name);
            match name.as_str() {
                "name" => {}
                "from" => from = Some((node, path)),
                "to" => to = Some((node, path)),
                "guard" => guard = Some((node, path)),
                "metadata" => description = self.described(node, &path),
                _ => self.chart.lose(
                    *place,
                    &path,
                    format!("the field {name:?} is not known"),
                    "remove it if it means nothing",
                ),
            }
        }
        let (Some((from, from_path)), Some((to, to_path))) = (from, to) else {
            return self.chart.problem(node.place, path, "a transition without `from` or `to`", "write both");
        };
        let target = match texts(to).as_slice() {
            [(Some(name), node)] => self.known(name, node, &to_path),
            _ => {
                let message = "a transition of a state machine leads to one place";
                return self.chart.problem(to.place, &to_path, message, "name one place");
            }
        };
        let guard = match guard {
            Some((node, path)) => match self.guard(node, &path) {
                Some(guard) => Some(guard),
                None => return,
            },
            None => None,
        };
        for (from, node) in texts(from) {
            let Some(from) = from else {
                self.chart.problem(node.place, &from_path, "`from` names places", "name a place");
                continue;
            };
            let (Some(from), Some(_)) = (self.known(&from, node, &from_path), target) else { continue };
            if self.chart.is_full() {
                return;
            }
            let trigger = Trigger::Event(name.to_owned());
            let hides = |way: &Way| way.trigger == trigger && way.guard.is_none();
            if self.chart.states[from].ways.iter().any(hides) {
                let message = format!(
                    "a transition {name:?} without a guard leads from {:?} already: this one would never be taken",
                    self.chart.states[from].name
                );
                self.chart.problem(node.place, &from_path, message, "rename one of them, or give the first a guard");
                continue;
            }
            let way = Way {
                trigger,
                guard: guard.clone(),
                target,
                assigns: Vec::new(),
                description: description.clone(),
                place: node.place,
                path: path.to_owned(),
            };
            self.chart.add_way(from, way);
        }
    }

    fn guard(&mut self, node: &Node, path: &str) -> Option<Guard> {
        let Some(text) = text(node) else {
            self.chart.problem(node.place, path, "a guard is a text", "write the expression in quotes");
            return None;
        };
        let parsed = Script::parse(Language::Symfony, &text).and_then(|script| script.with_state(&self.marking));
        if let (Ok(script), false) = (&parsed, self.options.guards.contains_key(&text)) {
            // Nothing is known of what the fields hold.
            for doubt in Declared::default().doubts(script) {
                let (Doubt::Surely(shown) | Doubt::Perhaps(shown)) = doubt;
                let message = format!("in PHP `==` makes a number of a text: here `{shown}` holds for the text alone");
                self.chart.note(node.place, path, message, "compare values of one kind");
            }
        }
        self.chart.script_guard(self.options, &text, node.place, path, || parsed)
    }
}
