//! XState v5 as JSON: the configuration that `createMachine` takes (<https://stately.ai/docs/machines>).

use super::Options;
use super::chart::{Chart, ChartState, Guard, Trigger, Way};
use crate::definition::fields::join;
use crate::definition::{Field, Node, Place, Value};

/// What a state does besides: nothing here runs code, keeps actors, or looks at tags.
const DOES_MORE: &[(&str, &str)] = &[
    ("entry", "actions on entering"),
    ("exit", "actions on leaving"),
    ("activities", "activities"),
    ("output", "the output"),
    ("tags", "tags"),
];

/// Fields that say nothing about what the machine does.
const MEANINGLESS: &[&str] = &["types", "order", "key", "$schema", "predictableActionArguments", "tsTypes", "schema"];

/// States inside one another; also what bounds the recursion here.
const DEPTH_MAX: usize = 30;

/// Whether a JSON text is a machine and no definition: it names itself by `id`, or not at all.
pub(super) fn is_machine(text: &str) -> bool {
    let Ok(serde_json::Value::Object(root)) = serde_json::from_str(text) else { return false };
    let has = |name: &str| root.contains_key(name);
    !has("workflow") && has("states") && (has("id") || has("context") || has("type"))
}

/// Reads a machine.
pub(super) fn read(root: &Node, options: &Options) -> Chart {
    let mut reader = Reader { chart: Chart::default(), options, targets: Vec::new(), ids: Vec::new() };
    reader.chart.name = text_of(root, "id").map(str::to_owned);
    reader.chart.description = text_of(root, "description").map(str::to_owned);
    if !matches!(root.value, Value::Map(_)) {
        reader.chart.problem(
            root.place,
            "",
            "a machine is a block of fields",
            "write `{\"id\": ..., \"states\": ...}`",
        );
        return reader.chart;
    }
    reader.state(None, "", root, "", 1);
    reader.resolve();
    reader.chart
}

fn field<'n>(node: &'n Node, name: &str) -> Option<&'n Field> {
    match &node.value {
        Value::Map(fields) => fields.iter().find(|field| field.name == name),
        _ => None,
    }
}

fn text_of<'n>(node: &'n Node, name: &str) -> Option<&'n str> {
    match &field(node, name)?.node.value {
        Value::Text(text) => Some(text),
        _ => None,
    }
}

fn is_empty(node: &Node) -> bool {
    match &node.value {
        Value::Null => true,
        Value::List(items) => items.is_empty(),
        Value::Map(fields) => fields.is_empty(),
        _ => false,
    }
}

/// Whether the field says no more than if it were not there.
fn is_nothing(node: &Node) -> bool {
    is_empty(node)
        || matches!(&node.value, Value::Bool(false))
        || matches!(&node.value, Value::Text(text) if text.is_empty())
}

/// JSON in one line.
fn compact(node: &Node) -> String {
    match &node.value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Float(value) => serde_json::Value::from(*value).to_string(),
        Value::Text(text) => serde_json::Value::from(text.as_str()).to_string(),
        Value::List(items) => format!("[{}]", items.iter().map(compact).collect::<Vec<_>>().join(",")),
        Value::Map(fields) => {
            let field =
                |field: &Field| format!("{}:{}", serde_json::Value::from(field.name.as_str()), compact(&field.node));
            format!("{{{}}}", fields.iter().map(field).collect::<Vec<_>>().join(","))
        }
    }
}

/// A target whose state may be written later.
struct Pending {
    from: usize,
    way: Option<usize>,
    target: String,
    reenters: bool,
    place: Place,
    path: String,
}

struct Reader<'o> {
    chart: Chart,
    options: &'o Options,
    targets: Vec<Pending>,
    ids: Vec<(String, usize)>,
}

impl Reader<'_> {
    fn state(&mut self, parent: Option<usize>, key: &str, node: &Node, path: &str, depth: usize) {
        if self.chart.is_full() || self.chart.is_too_long(key, node.place, path) {
            return;
        }
        let name = match parent {
            Some(parent) if parent != 0 => format!("{}.{key}", self.chart.states[parent].name),
            _ => key.to_owned(),
        };
        let state = ChartState { name, place: node.place, path: path.to_owned(), ..ChartState::default() };
        let at = self.chart.add(parent, state);
        let Value::Map(fields) = &node.value else {
            self.chart.problem(
                node.place,
                path,
                format!("a state is a block, not {}", node.value.kind()),
                "write `{}`",
            );
            return;
        };
        if depth > DEPTH_MAX {
            let message = format!("states are nested more than {DEPTH_MAX} deep");
            return self.chart.problem(node.place, path, message, "nest less deeply");
        }
        for field in fields {
            self.state_field(at, field, &join(path, &field.name), depth);
        }
        let has = |name: &str| fields.iter().any(|field| field.name == name && !is_nothing(&field.node));
        if let (false, false, Some(history)) = (has("type"), has("states"), fields.iter().find(|f| f.name == "history"))
            && !is_nothing(&history.node)
        {
            // As XState infers it.
            self.refused("history", history.place, &join(path, "history"));
        }
    }

    fn refused(&mut self, kind: &str, place: Place, path: &str) {
        let message = format!("`type: {kind}` cannot be carried over: a run is in one state, and remembers no other");
        let remedy = match kind {
            "parallel" => "make a workflow of each region",
            _ => "let the transitions lead to the state that is meant",
        };
        self.chart.problem(place, path, message, remedy);
    }

    fn state_field(&mut self, at: usize, field: &Field, path: &str, depth: usize) {
        let Field { name, place, node } = field;
        match name.as_str() {
            "id" => match &node.value {
                Value::Text(id) => self.ids.push((id.clone(), at)),
                _ => self.chart.problem(node.place, path, "an id is a text", "write it in quotes"),
            },
            "description" => {
                if let (Value::Text(text), true) = (&node.value, at != 0) {
                    self.chart.states[at].description = Some(text.clone());
                }
            }
            "type" => self.kind(at, node, path),
            "initial" => self.initial(at, node, path),
            "states" => match &node.value {
                Value::Map(states) => {
                    for state in states {
                        self.state(Some(at), &state.name, &state.node, &join(path, &state.name), depth + 1);
                    }
                }
                other => {
                    self.chart.problem(node.place, path, format!("states by name, not {}", other.kind()), "write `{}`")
                }
            },
            "on" => self.each(node, path, |reader, name, node, path| reader.event(at, name, node, path)),
            "after" => self.each(node, path, |reader, name, node, path| reader.delay(at, name, node, path)),
            "always" => self.ways(at, &Trigger::Always, node, path),
            "onDone" if at == 0 => {
                self.chart.lose(*place, path, "`onDone` of the machine itself", "whoever starts it watches it instead");
            }
            "onDone" => {
                let trigger = Trigger::Done(self.chart.states[at].name.clone());
                self.ways(at, &trigger, node, path);
            }
            "invoke" => self.invoke(at, node, path),
            "history" | "target" => {} // Of a history state, which is refused or left out as a whole.
            "context" => self.context(node, path),
            "meta" => self.meta(*place, path),
            "version" => self.chart.note(*place, path, "the version that it gives itself means nothing here", ""),
            _ if MEANINGLESS.contains(&name.as_str()) => {}
            _ => self.other(field, path),
        }
    }

    fn other(&mut self, field: &Field, path: &str) {
        match DOES_MORE.iter().find(|(name, _)| *name == field.name) {
            Some(_) if is_empty(&field.node) => {}
            Some((_, what)) => {
                let what = format!("{what} are not carried over{}", named(&field.node));
                self.chart.lose(field.place, path, what, "do this where the run is watched");
            }
            None => {
                let message = format!("the field {:?} is not known", field.name);
                self.chart.lose(field.place, path, message, "remove it if it means nothing");
            }
        }
    }

    fn meta(&mut self, place: Place, path: &str) {
        self.chart.note(place, path, "`meta` is not carried over", "keep it where it is looked at");
    }

    fn context(&mut self, node: &Node, path: &str) {
        if !is_empty(node) {
            let message = "the context that it begins with is not carried over: data comes with the start";
            self.chart.lose(node.place, path, message, "lockkeeper start WORKFLOW/ID --data JSON");
        }
    }

    fn kind(&mut self, at: usize, node: &Node, path: &str) {
        match &node.value {
            Value::Text(kind) if kind == "final" && at != 0 => self.chart.states[at].is_final = true,
            Value::Text(kind) if kind == "atomic" || kind == "compound" => {}
            Value::Text(kind) if kind == "parallel" || kind == "history" => self.refused(kind, node.place, path),
            _ => self.chart.problem(node.place, path, "the type is not known", "write `final`, or remove the field"),
        }
    }

    fn initial(&mut self, at: usize, node: &Node, path: &str) {
        let target = match &node.value {
            Value::Text(target) => Some(target.as_str()),
            Value::Map(_) => {
                if let Some(actions) = field(node, "actions").filter(|actions| !is_empty(&actions.node)) {
                    let message = format!("actions are not carried over{}", named(&actions.node));
                    self.chart.lose(actions.place, path, message, "do this where the run is watched");
                }
                text_of(node, "target")
            }
            _ => None,
        };
        let Some(target) = target else {
            return self.chart.problem(node.place, path, "`initial` is the name of a state", "write a state's name");
        };
        let target = if target.starts_with(['#', '.']) { target.to_owned() } else { format!(".{target}") };
        let (place, path) = (node.place, path.to_owned());
        self.targets.push(Pending { from: at, way: None, target, reenters: true, place, path });
    }

    fn each(&mut self, node: &Node, path: &str, mut read: impl FnMut(&mut Self, &str, &Node, &str)) {
        match &node.value {
            Value::Map(fields) => {
                fields.iter().for_each(|field| read(self, &field.name, &field.node, &join(path, &field.name)));
            }
            other => {
                self.chart.problem(node.place, path, format!("a block of fields, not {}", other.kind()), "write `{}`")
            }
        }
    }

    fn event(&mut self, at: usize, name: &str, node: &Node, path: &str) {
        match name {
            "" => self.ways(at, &Trigger::Always, node, path),
            _ if name == "*" || name.ends_with(".*") => {
                let message = format!("the wildcard {name:?} is not carried over: events are named");
                self.chart.lose(node.place, path, message, "name the events");
            }
            _ => self.ways(at, &Trigger::Event(name.to_owned()), node, path),
        }
    }

    fn delay(&mut self, at: usize, delay: &str, node: &Node, path: &str) {
        match delay.parse() {
            Ok(ms) => self.ways(at, &Trigger::After(ms), node, path),
            Err(_) => {
                let message = format!("the delay {delay:?} is computed elsewhere");
                self.chart.problem(node.place, path, message, "write milliseconds");
            }
        }
    }

    fn invoke(&mut self, at: usize, node: &Node, path: &str) {
        let items = match &node.value {
            Value::List(items) => items.iter().collect(),
            _ => vec![node],
        };
        for (n, item) in items.into_iter().enumerate() {
            let own = match self.chart.states[at].name.as_str() {
                "" => self.chart.name.clone().unwrap_or_default(),
                name => format!("{}.{name}", self.chart.name.as_deref().unwrap_or("(machine)")),
            };
            let id = text_of(item, "id").map_or_else(|| format!("{n}.{own}"), str::to_owned);
            let ends = [("onDone", "done"), ("onError", "error"), ("onSnapshot", "snapshot")];
            let mut events = Vec::new();
            for (name, kind) in ends {
                let Some(found) = field(item, name) else { continue };
                let event = format!("xstate.{kind}.actor.{id}");
                self.ways(at, &Trigger::Event(event.clone()), &found.node, &join(path, name));
                events.push(event);
            }
            let src = text_of(item, "src").unwrap_or(&id).to_owned();
            let remedy = match events.as_slice() {
                [] => "do its work where the run is watched".to_owned(),
                events => format!("whoever does its work sends {}", events.join(" or ")),
            };
            self.chart.lose(item.place, path, format!("{src:?} is not invoked"), remedy);
        }
    }

    /// The transitions of one trigger: a target, a block, or a list of these.
    fn ways(&mut self, at: usize, trigger: &Trigger, node: &Node, path: &str) {
        match &node.value {
            // An empty list has no transition, so that one of a state around is tried.
            Value::List(items) => {
                for (n, item) in items.iter().enumerate() {
                    self.way(at, trigger, item, &format!("{path}[{n}]"));
                }
            }
            _ => self.way(at, trigger, node, path),
        }
    }

    fn way(&mut self, at: usize, trigger: &Trigger, node: &Node, path: &str) {
        if self.chart.is_full() {
            return;
        }
        let mut way = Way {
            trigger: trigger.clone(),
            guard: None,
            target: None,
            assigns: Vec::new(),
            description: None,
            place: node.place,
            path: path.to_owned(),
        };
        let mut target = None;
        let mut reenters = false;
        match &node.value {
            Value::Text(text) => target = Some(text.clone()),
            // Nothing happens, and nothing around it is tried.
            Value::Null => {}
            Value::Map(fields) => {
                for Field { name, place, node } in fields {
                    let path = join(path, name);
                    match name.as_str() {
                        "target" => target = self.target(node, &path),
                        "guard" | "cond" => way.guard = self.guard(node, &path),
                        "description" => way.description = match_text(node),
                        "reenter" => reenters = node.value == Value::Bool(true),
                        "internal" => reenters = node.value == Value::Bool(false),
                        "actions" if is_empty(node) => {}
                        "actions" => {
                            let message = format!("actions are not carried over{}", named(node));
                            self.chart.lose(*place, &path, message, "do this where the run is watched");
                        }
                        "meta" => self.meta(*place, &path),
                        "in" => {
                            let message = "`in` asks for another state, which cannot be carried over: a run is in one";
                            self.chart.problem(*place, &path, message, "write it as a guard, or leave it out");
                        }
                        _ => self.chart.lose(*place, &path, format!("the field {name:?} is not known"), "remove it"),
                    }
                }
            }
            other => {
                let message = format!("a transition is a target or a block, not {}", other.kind());
                return self.chart.problem(node.place, path, message, "write a state's name");
            }
        }
        if let Some(target) = target {
            let way = Some(self.chart.states[at].ways.len());
            let path = path.to_owned();
            self.targets.push(Pending { from: at, way, target, reenters, place: node.place, path });
        }
        self.chart.add_way(at, way);
    }

    fn target(&mut self, node: &Node, path: &str) -> Option<String> {
        match &node.value {
            Value::Text(text) => Some(text.clone()),
            Value::Null => None,
            Value::List(items) if items.len() == 1 => match_text(&items[0]),
            Value::List(_) => {
                let message = "several targets at once are those of parallel states, which cannot be carried over";
                self.chart.problem(node.place, path, message, "name one state");
                None
            }
            other => {
                self.chart.problem(
                    node.place,
                    path,
                    format!("a target is a text, not {}", other.kind()),
                    "name a state",
                );
                None
            }
        }
    }

    fn guard(&mut self, node: &Node, path: &str) -> Option<Guard> {
        let name = match &node.value {
            Value::Text(name) => name.clone(),
            Value::Map(_) => {
                let Some(name) = text_of(node, "type") else {
                    self.chart.problem(node.place, path, "the guard has no type", "name it");
                    return None;
                };
                // The same guard with other params is another condition.
                match field(node, "params").filter(|params| !is_empty(&params.node)) {
                    Some(params) => format!("{name} {}", compact(&params.node)),
                    None => name.to_owned(),
                }
            }
            other => {
                self.chart.problem(node.place, path, format!("a guard is a name, not {}", other.kind()), "name it");
                return None;
            }
        };
        self.chart.given_guard(self.options, &name, node.place, path, "is code of the machine's own")
    }

    fn resolve(&mut self) {
        for pending in std::mem::take(&mut self.targets) {
            let Some(found) = self.find(pending.from, &pending.target) else {
                if self.chart.is_full_of_problems() {
                    continue;
                }
                let shown =
                    pending.target.strip_prefix('.').filter(|_| pending.way.is_none()).unwrap_or(&pending.target);
                let known: Vec<&str> = self.chart.states[1..].iter().map(|state| state.name.as_str()).collect();
                let hint = crate::definition::suggestion::hint(shown, known.iter().copied());
                let message = format!("there is no state {shown:?} from here{hint}");
                let remedy = "a state beside it by its name, one inside as `.name`, any as `#id`";
                self.chart.problem(pending.place, &pending.path, message, remedy);
                continue;
            };
            let Some(way) = pending.way else {
                if self.chart.states[found].parent == Some(pending.from) {
                    self.chart.states[pending.from].initial = Some(found);
                } else {
                    let message = "`initial` is none of the states inside";
                    self.chart.problem(pending.place, &pending.path, message, "name one of the states inside");
                }
                continue;
            };
            // The visit goes on unless it is to be entered again.
            let stays = found == pending.from && !pending.reenters && self.chart.states[found].children.is_empty();
            // It is not there if its event was refused.
            let Some(way) = self.chart.states[pending.from].ways.get_mut(way) else { continue };
            if !stays || way.trigger == Trigger::Always {
                way.target = Some(found);
            }
        }
    }

    /// The state that `target` means, written in a transition of `from`.
    fn find(&self, from: usize, target: &str) -> Option<usize> {
        if let Some(path) = target.strip_prefix('#') {
            let (id, rest) = path.split_once('.').map_or((path, None), |(id, rest)| (id, Some(rest)));
            let by_id = |id: &str| self.ids.iter().find(|(known, _)| known == id).map(|(_, at)| *at);
            // An id may have dots in it.
            return match (by_id(path), by_id(id), rest) {
                (Some(found), ..) => Some(found),
                (None, Some(found), Some(rest)) => self.inside(found, rest),
                _ => None,
            };
        }
        match target.strip_prefix('.') {
            Some(path) => self.inside(from, path),
            None => self.inside(self.chart.states[from].parent?, target),
        }
    }

    fn inside(&self, from: usize, path: &str) -> Option<usize> {
        let start = self.chart.states[from].name.as_str();
        let name = if start.is_empty() { path.to_owned() } else { format!("{start}.{path}") };
        self.chart.states.iter().skip(1).position(|state| state.name == name).map(|at| at + 1)
    }
}

fn match_text(node: &Node) -> Option<String> {
    match &node.value {
        Value::Text(text) => Some(text.clone()),
        _ => None,
    }
}

/// The names of actions, to be said behind what they are.
fn named(node: &Node) -> String {
    let name = |node: &Node| match &node.value {
        Value::Text(text) => Some(text.clone()),
        Value::Map(_) => text_of(node, "type").map(str::to_owned),
        _ => None,
    };
    let names: Vec<String> = match &node.value {
        Value::List(items) => items.iter().filter_map(name).collect(),
        _ => name(node).into_iter().collect(),
    };
    if names.is_empty() { String::new() } else { format!(": {}", names.join(", ")) }
}
