//! SCXML (<https://www.w3.org/TR/scxml/>).
//!
//! `roxmltree` and not the crate `scxml`: that one passes over what it does not know, and keeps no places.

use roxmltree::{Document, Node, ParsingOptions};

use super::Options;
use super::chart::{Chart, ChartState, Guard, Trigger, Way};
use super::script::{Language, Script};
use crate::Problem;
use crate::definition::Place;

/// The namespace of SCXML's elements; texts without any are read too.
const NAMESPACE: &str = "http://www.w3.org/2005/07/scxml";

/// States inside one another; also what bounds the recursion here.
const DEPTH_MAX: usize = 30;

/// Elements and attributes of one text.
const NODES_MAX: u32 = 200_000;

/// Elements inside one another, as far as the parser below recurses on them.
const ELEMENTS_DEEP_MAX: usize = 128;

/// Reads a machine.
///
/// # Errors
/// Where the text is no XML.
pub(super) fn read(text: &str, options: &Options) -> Result<Chart, Vec<Problem>> {
    check_depth(text)?;
    // Entities of a DTD can stand for more than any text: they are refused with it.
    let parsing = ParsingOptions { allow_dtd: false, nodes_limit: NODES_MAX, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, parsing).map_err(|error| vec![syntax_problem(&error)])?;
    let root = document.root_element();
    let mut reader = Reader { chart: Chart::default(), options, targets: Vec::new(), ids: Vec::new() };
    if root.tag_name().name() != "scxml" {
        let message = format!("the element <{}> is no machine", root.tag_name().name());
        reader.chart.problem(place(root), "", message, "write `<scxml ...>`");
        return Ok(reader.chart);
    }
    reader.root(root);
    reader.resolve();
    reader.attach_done();
    Ok(reader.chart)
}

/// The parser recurses on elements; a stack is finite.
fn check_depth(text: &str) -> Result<(), Vec<Problem>> {
    let mut depth = 0_usize;
    for (at, _) in text.match_indices('<') {
        let rest = &text.as_bytes()[at + 1..];
        match rest.first() {
            Some(b'/') => depth = depth.saturating_sub(1),
            Some(b'!' | b'?') | None => {}
            Some(_) => {
                let end = text[at..].find('>').map_or(text.len(), |end| at + end);
                depth += usize::from(!text[at..end].ends_with('/'));
            }
        }
        if depth > ELEMENTS_DEEP_MAX {
            let message = format!("elements are nested more than {ELEMENTS_DEEP_MAX} deep");
            return Err(vec![Problem::at(Place::of(text, at), "", message, "nest less deeply")]);
        }
    }
    Ok(())
}

fn syntax_problem(error: &roxmltree::Error) -> Problem {
    let pos = error.pos();
    let place = Place { line: pos.row.into(), column: pos.col.into() };
    let full = error.to_string();
    let message = full.rsplit_once(" at ").map_or(full.as_str(), |(message, _)| message);
    Problem::at(place, "", format!("not XML: {message}"), "write well-formed XML, without a DTD")
}

fn place(node: Node<'_, '_>) -> Place {
    let pos = node.document().text_pos_at(node.range().start);
    Place { line: pos.row.into(), column: pos.col.into() }
}

/// The children that are SCXML's; those of other namespaces mean something to other tools.
fn elements<'a, 'i: 'a>(node: Node<'a, 'i>) -> impl Iterator<Item = Node<'a, 'i>> {
    let is_own = |node: &Node<'_, '_>| node.tag_name().namespace().is_none_or(|name| name == NAMESPACE);
    node.children().filter(Node::is_element).filter(is_own)
}

/// A target whose state may be written later.
struct Pending {
    from: usize,
    way: Option<usize>,
    target: String,
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
    fn root(&mut self, node: Node<'_, '_>) {
        self.chart.name = node.attribute("name").map(str::to_owned);
        let at = self.chart.add(None, ChartState { place: place(node), path: "scxml".into(), ..ChartState::default() });
        if let Some(model) = node.attribute("datamodel").filter(|model| !["ecmascript", "null"].contains(model)) {
            let message = format!("the data model {model:?} is not known: its expressions are read as ECMAScript");
            self.chart.lose(place(node), "scxml", message, "write `datamodel=\"ecmascript\"`");
        }
        self.inside(at, node, "scxml", 1);
    }

    fn inside(&mut self, at: usize, node: Node<'_, '_>, path: &str, depth: usize) {
        if depth > DEPTH_MAX {
            let message = format!("states are nested more than {DEPTH_MAX} deep");
            return self.chart.problem(place(node), path, message, "nest less deeply");
        }
        if let Some(initial) = node.attribute("initial") {
            self.target(at, None, initial, place(node), path);
        }
        for (n, element) in elements(node).enumerate() {
            let name = element.tag_name().name();
            let own = element.attribute("id").map_or_else(|| format!("{name}[{n}]"), str::to_owned);
            let path = format!("{path}.{own}");
            match name {
                "state" | "final" => self.state(at, element, &path, depth),
                "transition" => self.transition(at, element, &path),
                "initial" => self.initial(at, element, &path),
                "parallel" | "history" => self.refused(element, name, &path),
                "onentry" | "onexit" => self.executable(element, &format!("<{name}>"), &path),
                "datamodel" => self.datamodel(element, &path),
                "invoke" => {
                    let what = element.attribute("id").or(element.attribute("src")).unwrap_or("a service").to_owned();
                    let remedy = format!("whoever does its work sends done.invoke.{what}");
                    self.chart.lose(place(element), &path, format!("{what:?} is not invoked"), remedy);
                }
                "script" => self.executable(element, "<script>", &path),
                "donedata" => {
                    let message = "the data of <donedata> is not carried over";
                    self.chart.lose(place(element), &path, message, "assign it in the transition that leads here");
                }
                _ => {
                    let message = format!("the element <{name}> is not known here");
                    self.chart.lose(place(element), &path, message, "remove it if it means nothing");
                }
            }
        }
        let state = &self.chart.states[at];
        let is_told = state.initial.is_some() || self.targets.iter().any(|t| t.from == at && t.way.is_none());
        if !is_told {
            // In document order, the first.
            self.chart.states[at].initial = self.chart.states[at].children.first().copied();
        }
    }

    fn refused(&mut self, element: Node<'_, '_>, name: &str, path: &str) {
        let message = format!("<{name}> cannot be carried over: a run is in one state, and remembers no other");
        let remedy = match name {
            "parallel" => "make a workflow of each region",
            _ => "let the transitions lead to the state that is meant",
        };
        self.chart.problem(place(element), path, message, remedy);
    }

    fn state(&mut self, parent: usize, node: Node<'_, '_>, path: &str, depth: usize) {
        let generated = format!("{}{}", node.tag_name().name(), self.chart.states.len());
        let name = node.attribute("id").unwrap_or(&generated).to_owned();
        let is_final = node.tag_name().name() == "final";
        let state = ChartState {
            name: name.clone(),
            is_final,
            place: place(node),
            path: path.to_owned(),
            ..ChartState::default()
        };
        let at = self.chart.add(Some(parent), state);
        if self.ids.iter().any(|(known, _)| *known == name) {
            let message = format!("the id {name:?} is given twice");
            self.chart.problem(place(node), path, message, "give one of them another id");
        }
        self.ids.push((name, at));
        self.inside(at, node, path, depth + 1);
    }

    fn initial(&mut self, at: usize, node: Node<'_, '_>, path: &str) {
        let Some(transition) = elements(node).find(|element| element.tag_name().name() == "transition") else {
            return self.chart.problem(place(node), path, "<initial> has no transition", "name a state");
        };
        self.executable(transition, "<initial>", path);
        match transition.attribute("target") {
            Some(target) => self.target(at, None, target, place(transition), path),
            None => self.chart.problem(place(node), path, "<initial> has no target", "name a state"),
        }
    }

    fn target(&mut self, from: usize, way: Option<usize>, target: &str, place: Place, path: &str) {
        let mut names = target.split_whitespace();
        match (names.next(), names.next()) {
            (Some(target), None) => {
                let (target, path) = (target.to_owned(), path.to_owned());
                self.targets.push(Pending { from, way, target, place, path });
            }
            (None, _) => self.chart.problem(place, path, "the target is empty", "name a state"),
            (Some(_), Some(_)) => {
                let message = "several targets at once are those of parallel states, which cannot be carried over";
                self.chart.problem(place, path, message, "name one state");
            }
        }
    }

    fn transition(&mut self, at: usize, node: Node<'_, '_>, path: &str) {
        let guard = match node.attribute("cond") {
            Some(text) => match self.guard(text.trim(), node, path) {
                Some(guard) => Some(guard),
                None => return,
            },
            None => None,
        };
        let assigns = self.assigns(node, path);
        let triggers = match node.attribute("event") {
            None => vec![Trigger::Always],
            Some(events) => events.split_whitespace().filter_map(|event| self.event(event, node, path)).collect(),
        };
        for trigger in triggers {
            let way = self.chart.states[at].ways.len();
            if let Some(target) = node.attribute("target") {
                self.target(at, Some(way), target, place(node), path);
            }
            self.chart.states[at].ways.push(Way {
                trigger,
                guard: guard.clone(),
                target: None,
                assigns: assigns.clone(),
                description: None,
                place: place(node),
                path: path.to_owned(),
            });
        }
    }

    /// An event's descriptor; `a.*` means the same as `a`.
    fn event(&mut self, event: &str, node: Node<'_, '_>, path: &str) -> Option<Trigger> {
        let name = event.strip_suffix(".*").or(event.strip_suffix('.')).unwrap_or(event);
        if name == "*" || name.is_empty() {
            let message = "the wildcard \"*\" is not carried over: events are named";
            self.chart.lose(place(node), path, message, "name the events");
            return None;
        }
        if name != event {
            let message = format!("{event:?} stands for all events that begin so; here it is the event {name:?} alone");
            self.chart.lose(place(node), path, message, "name the events");
        }
        match name.strip_prefix("done.state.") {
            Some(state) => Some(Trigger::Done(state.to_owned())),
            None => Some(Trigger::Event(name.to_owned())),
        }
    }

    fn guard(&mut self, text: &str, node: Node<'_, '_>, path: &str) -> Option<Guard> {
        if self.options.guards.contains_key(text) {
            return self.chart.given_guard(self.options, text, place(node), path, "");
        }
        match Script::parse(Language::Ecma, text) {
            Ok(script) => Some(Guard::Script(script)),
            Err(why) => self.chart.given_guard(self.options, text, place(node), path, &why),
        }
    }

    /// What a transition assigns; its other executable content is lost.
    fn assigns(&mut self, node: Node<'_, '_>, path: &str) -> Vec<(String, Script)> {
        let mut assigns: Vec<(String, Script)> = Vec::new();
        for element in elements(node) {
            let name = element.tag_name().name();
            if name != "assign" {
                self.content(element, path);
                continue;
            }
            let location = element.attribute("location").unwrap_or_default().trim();
            let value = Script::parse(Language::Ecma, element.attribute("expr").unwrap_or_default());
            // Those before it have been made: it sees what they assigned.
            match (Script::parse(Language::Ecma, location), value.map(|value| value.after(&assigns))) {
                (Ok(Script::Path { of_event: false, mut fields }), Ok(Some(value))) if fields.len() == 1 => {
                    assigns.retain(|(field, _)| *field != fields[0]);
                    assigns.extend(fields.pop().map(|field| (field, value)));
                }
                _ => {
                    let message = format!("the assignment to {location:?} cannot be carried over");
                    let remedy = "assign a field by an expression that means the same in CEL";
                    self.chart.problem(place(element), path, message, remedy);
                }
            }
        }
        assigns
    }

    fn content(&mut self, element: Node<'_, '_>, path: &str) {
        let name = element.tag_name().name();
        let about = ["event", "label", "expr", "src"].iter().find_map(|name| element.attribute(*name));
        let about = about.map(|about| format!(" ({about})")).unwrap_or_default();
        let message = format!("<{name}>{about} is not carried over");
        self.chart.lose(place(element), path, message, "do this where the run is watched");
    }

    /// Executable content of which nothing is carried over.
    fn executable(&mut self, node: Node<'_, '_>, what: &str, path: &str) {
        if what == "<script>" {
            let message = format!("{what} is not carried over");
            return self.chart.lose(place(node), path, message, "do this where the run is watched");
        }
        for element in elements(node) {
            let message = format!("<{}> in {what} is not carried over", element.tag_name().name());
            self.chart.lose(place(element), path, message, "do this where the run is watched, or in a transition");
        }
    }

    fn datamodel(&mut self, node: Node<'_, '_>, path: &str) {
        let data: Vec<Node<'_, '_>> = elements(node).collect();
        let Some(first) = data.first() else { return };
        let value = |node: &Node<'_, '_>| {
            let text = node.attribute("expr").or(node.text()).unwrap_or("null").trim();
            let value = serde_json::from_str(text).unwrap_or_else(|_| match Script::parse(Language::Ecma, text) {
                Ok(Script::Literal(value)) => value,
                _ => serde_json::Value::String(text.to_owned()),
            });
            (node.attribute("id").unwrap_or_default().to_owned(), value)
        };
        let start: crate::Data = data.iter().map(value).collect();
        let message = "the data that it begins with is not carried over: data comes with the start";
        let remedy = format!("lockkeeper start WORKFLOW/ID --data '{}'", serde_json::Value::Object(start));
        self.chart.lose(place(*first), path, message, remedy);
    }

    fn resolve(&mut self) {
        for Pending { from, way, target, place, path } in std::mem::take(&mut self.targets) {
            let Some(found) = self.ids.iter().find(|(id, _)| *id == target).map(|(_, at)| *at) else {
                let hint = crate::definition::suggestion::hint(&target, self.ids.iter().map(|(id, _)| id.as_str()));
                let message = format!("there is no state {target:?}{hint}");
                self.chart.problem(place, &path, message, "write the id of a state");
                continue;
            };
            match way {
                Some(way) => self.chart.states[from].ways[way].target = Some(found),
                // Not necessarily a child: any state inside.
                None if self.is_inside(found, from) => self.chart.states[from].initial = Some(found),
                None => {
                    let message = format!("{target:?} is none of the states inside");
                    self.chart.problem(place, &path, message, "name one of the states inside");
                }
            }
        }
    }

    fn is_inside(&self, at: usize, around: usize) -> bool {
        let parent = |at: &usize| self.chart.states[*at].parent;
        std::iter::successors(parent(&at), parent).any(|at| at == around)
    }

    /// `done.state.x` of a state that has no final state inside is an event like any other.
    fn attach_done(&mut self) {
        let has_final = |chart: &Chart, name: &str| {
            let parent_is = |state: &ChartState| state.parent.is_some_and(|parent| chart.states[parent].name == name);
            chart.states.iter().any(|state| state.is_final && parent_is(state))
        };
        for at in 0..self.chart.states.len() {
            for way in 0..self.chart.states[at].ways.len() {
                if let Trigger::Done(name) = &self.chart.states[at].ways[way].trigger
                    && !has_final(&self.chart, name)
                {
                    self.chart.states[at].ways[way].trigger = Trigger::Event(format!("done.state.{name}"));
                }
            }
        }
    }
}
