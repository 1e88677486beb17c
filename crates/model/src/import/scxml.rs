//! SCXML (<https://www.w3.org/TR/scxml/>).
//!
//! `roxmltree` and not the crate `scxml`: that one passes over what it does not know, and keeps no places.

use std::collections::{BTreeSet, HashMap, HashSet};

use roxmltree::{Document, Node, ParsingOptions};

use super::chart::{Chart, ChartState, Guard, Trigger, Way};
use super::presence::{Declared, Doubt};
use super::script::{Language, Script};
use super::{Options, content};
use crate::Problem;
use crate::definition::Place;
use crate::definition::fields::join;
use crate::definition::lines::Lines;

/// The namespace of SCXML's elements; texts without any are read too.
const NAMESPACE: &str = "http://www.w3.org/2005/07/scxml";

/// The namespace of XInclude's elements.
const XINCLUDE: &str = "http://www.w3.org/2001/XInclude";

/// What the event begins with that a state inside of which a final state was entered is done by.
const DONE: &str = "done.state.";

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
    read_by(text, options).map(|reader| reader.chart)
}

fn read_by<'t>(text: &'t str, options: &'t Options) -> Result<Reader<'t>, Vec<Problem>> {
    let lines = Lines::new(text);
    check_depth(text, &lines)?;
    // Entities of a DTD can stand for more than any text: they are refused with it.
    let parsing = ParsingOptions { allow_dtd: false, nodes_limit: NODES_MAX, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, parsing).map_err(|error| vec![syntax_problem(&error)])?;
    let root = document.root_element();
    let own = || root.descendants().filter(|node| node.is_element() && is_own(node));
    let mut reader = Reader {
        chart: Chart::default(),
        options,
        lines,
        targets: Vec::new(),
        ids: HashMap::new(),
        written: own().filter_map(|node| node.attribute("id").map(str::to_owned)).collect(),
        declared: content::declared(own().filter(|node| node.tag_name().name() == "data")),
        unassigned: Vec::new(),
        sent: own().filter(|node| ["send", "raise"].contains(&node.tag_name().name())).filter_map(event_of).collect(),
    };
    if !is_own(&root) {
        let message = format!("the namespace {:?} is not SCXML's", root.tag_name().namespace().unwrap_or_default());
        reader.chart.problem(reader.place(root), "", message, format!("write `xmlns=\"{NAMESPACE}\"`"));
        return Ok(reader);
    }
    if root.tag_name().name() != "scxml" {
        let message = format!("the element <{}> is no machine", root.tag_name().name());
        reader.chart.problem(reader.lines.place(root.range().start), "", message, "write `<scxml ...>`");
        return Ok(reader);
    }
    reader.root(root);
    reader.resolve();
    reader.match_events();
    reader.check_unassigned();
    Ok(reader)
}

/// The event that a `<send>` or `<raise>` names.
fn event_of(node: Node<'_, '_>) -> Option<String> {
    node.attribute("event").filter(|event| !event.trim().is_empty()).map(|event| event.trim().to_owned())
}

/// The parser recurses on elements; a stack is finite. Reads the text once.
fn check_depth(text: &str, lines: &Lines<'_>) -> Result<(), Vec<Problem>> {
    let mut depth = 0_usize;
    let mut at = 0;
    let past = |from: usize, end: &str| text[from..].find(end).map_or(text.len(), |found| from + found + end.len());
    while let Some(begin) = text[at..].find('<').map(|found| at + found) {
        let rest = &text[begin..];
        at = match () {
            () if rest.starts_with("<!--") => past(begin + 4, "-->"),
            () if rest.starts_with("<![CDATA[") => past(begin, "]]>"),
            () if rest.starts_with("<?") => past(begin, "?>"),
            () if rest.starts_with("<!") => past(begin, ">"),
            () if rest.starts_with("</") => {
                depth = depth.saturating_sub(1);
                past(begin, ">")
            }
            () => {
                let (end, is_empty) = tag(text, begin);
                depth += usize::from(!is_empty);
                end
            }
        };
        if depth > ELEMENTS_DEEP_MAX {
            let message = format!("elements are nested more than {ELEMENTS_DEEP_MAX} deep");
            return Err(vec![Problem::at(lines.place(begin), "", message, "nest less deeply")]);
        }
    }
    Ok(())
}

/// Where the tag that begins at `begin` ends, and whether its element has nothing inside. `>` and `/` may stand in the
/// values of attributes.
fn tag(text: &str, begin: usize) -> (usize, bool) {
    let mut quote = None;
    for (at, byte) in text.bytes().enumerate().skip(begin + 1) {
        match (quote, byte) {
            (None, b'\'' | b'"') => quote = Some(byte),
            (Some(open), _) if open == byte => quote = None,
            (None, b'>') => return (at + 1, text.as_bytes()[at - 1] == b'/'),
            _ => {}
        }
    }
    (text.len(), false)
}

fn syntax_problem(error: &roxmltree::Error) -> Problem {
    let pos = error.pos();
    let place = Place { line: pos.row.into(), column: pos.col.into() };
    let full = error.to_string();
    let message = full.rsplit_once(" at ").map_or(full.as_str(), |(message, _)| message);
    Problem::at(place, "", format!("not XML: {message}"), "write well-formed XML, without a DTD")
}

/// Whether an element is SCXML's.
pub(super) fn is_own(node: &Node<'_, '_>) -> bool {
    node.tag_name().namespace().is_none_or(|name| name == NAMESPACE)
}

/// A target whose state may be written later.
struct Pending {
    from: usize,
    way: Option<usize>,
    target: String,
    place: Place,
    path: String,
}

pub(super) struct Reader<'o> {
    pub(super) chart: Chart,
    options: &'o Options,
    lines: Lines<'o>,
    targets: Vec<Pending>,
    ids: HashMap<String, usize>,
    /// The ids that are written somewhere: none is made up that is one of them.
    written: HashSet<String>,
    pub(super) declared: Declared,
    /// Assignments that are not carried over: the field, and where it stands.
    pub(super) unassigned: Vec<(String, Place, String)>,
    /// Events that are sent in the machine.
    pub(super) sent: BTreeSet<String>,
}

impl Reader<'_> {
    /// The children that are SCXML's; those of other namespaces mean something to other tools, which is said.
    pub(super) fn elements<'a, 'i>(&mut self, node: Node<'a, 'i>, path: &str) -> Vec<Node<'a, 'i>> {
        let (own, foreign): (Vec<_>, Vec<_>) = node.children().filter(Node::is_element).partition(is_own);
        for element in foreign {
            let (name, place) = (element.tag_name().name(), self.place(element));
            if element.tag_name().namespace() == Some(XINCLUDE) {
                let message = format!("<{name}> of XInclude is not followed: what it stands for is not known");
                self.chart.problem(place, path, message, "write what it stands for");
            } else {
                let space = element.tag_name().namespace().unwrap_or_default();
                let message = format!("<{name}> is of another namespace ({space}), and not carried over");
                self.chart.lose(place, path, message, "remove it if it means nothing");
            }
        }
        own
    }

    /// Where an element stands. (The parser's own count of lines begins at the text's beginning each time.)
    pub(super) fn place(&self, node: Node<'_, '_>) -> Place {
        self.lines.place(node.range().start)
    }

    fn root(&mut self, node: Node<'_, '_>) {
        self.chart.name = node.attribute("name").map(str::to_owned);
        let at =
            self.chart.add(None, ChartState { place: self.place(node), path: "scxml".into(), ..ChartState::default() });
        if let Some(model) = node.attribute("datamodel").filter(|model| !["ecmascript", "null"].contains(model)) {
            let message = format!("the data model {model:?} is not known: its expressions are read as ECMAScript");
            self.chart.lose(self.place(node), "scxml", message, "write `datamodel=\"ecmascript\"`");
        }
        self.inside(at, node, "scxml", 1);
    }

    fn inside(&mut self, at: usize, node: Node<'_, '_>, path: &str, depth: usize) {
        if depth > DEPTH_MAX {
            let message = format!("states are nested more than {DEPTH_MAX} deep");
            return self.chart.problem(self.place(node), path, message, "nest less deeply");
        }
        if let Some(initial) = node.attribute("initial") {
            self.target(at, None, initial, self.place(node), path);
        }
        for (n, element) in self.elements(node, path).into_iter().enumerate() {
            let name = element.tag_name().name();
            let own = element.attribute("id").map_or_else(|| format!("{name}[{n}]"), str::to_owned);
            let path = join(path, &own);
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
                    self.chart.lose(self.place(element), &path, format!("{what:?} is not invoked"), remedy);
                }
                "script" => self.executable(element, "<script>", &path),
                "donedata" => {
                    let message = "the data of <donedata> is not carried over";
                    self.chart.lose(self.place(element), &path, message, "assign it in the transition that leads here");
                }
                _ => {
                    let message = format!("the element <{name}> is not known here");
                    self.chart.lose(self.place(element), &path, message, "remove it if it means nothing");
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
        self.chart.problem(self.place(element), path, message, remedy);
    }

    fn state(&mut self, parent: usize, node: Node<'_, '_>, path: &str, depth: usize) {
        let name = match node.attribute("id") {
            Some(id) => id.to_owned(),
            None => self.made_up(node.tag_name().name()),
        };
        if self.chart.is_full() || self.chart.is_too_long(&name, self.place(node), path) {
            return;
        }
        let is_final = node.tag_name().name() == "final";
        let state = ChartState {
            name: name.clone(),
            is_final,
            place: self.place(node),
            path: path.to_owned(),
            ..ChartState::default()
        };
        let at = self.chart.add(Some(parent), state);
        if self.ids.contains_key(&name) {
            let message = format!("the id {name:?} is given twice");
            self.chart.problem(self.place(node), path, message, "give one of them another id");
        }
        self.ids.entry(name).or_insert(at);
        self.inside(at, node, path, depth + 1);
    }

    /// An id that no state has.
    fn made_up(&mut self, kind: &str) -> String {
        let numbers = self.chart.states.len()..;
        let free = numbers.map(|n| format!("{kind}{n}")).find(|id| !self.written.contains(id)).unwrap_or_default();
        self.written.insert(free.clone());
        free
    }

    fn initial(&mut self, at: usize, node: Node<'_, '_>, path: &str) {
        let mut inside = self.elements(node, path).into_iter();
        let Some(transition) = inside.find(|element| element.tag_name().name() == "transition") else {
            return self.chart.problem(self.place(node), path, "<initial> has no transition", "name a state");
        };
        self.executable(transition, "<initial>", path);
        match transition.attribute("target") {
            Some(target) => self.target(at, None, target, self.place(transition), path),
            None => self.chart.problem(self.place(node), path, "<initial> has no target", "name a state"),
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
            Some(events) if events.trim().is_empty() => {
                let message = "`event` is empty: it is not known when the transition is taken";
                return self.chart.problem(self.place(node), path, message, "name an event, or remove the attribute");
            }
            Some(events) => events.split_whitespace().filter_map(|event| self.event(event, node, path)).collect(),
        };
        for trigger in triggers {
            if self.chart.is_full() {
                return;
            }
            let way = self.chart.states[at].ways.len();
            if let Some(target) = node.attribute("target") {
                self.target(at, Some(way), target, self.place(node), path);
            }
            let way = Way {
                trigger,
                guard: guard.clone(),
                target: None,
                assigns: assigns.clone(),
                description: None,
                place: self.place(node),
                path: path.to_owned(),
            };
            self.chart.add_way(at, way);
        }
    }

    /// An event's descriptor; `a.*` means the same as `a`.
    fn event(&mut self, event: &str, node: Node<'_, '_>, path: &str) -> Option<Trigger> {
        let name = event.strip_suffix(".*").or(event.strip_suffix('.')).unwrap_or(event);
        if name == "*" || name.is_empty() {
            let message = "the wildcard \"*\" is not carried over: events are named";
            self.chart.lose(self.place(node), path, message, "name the events");
            return None;
        }
        if name != event {
            let message = format!(
                "{event:?} stands for all events that begin so; here it is {name:?} and those that the machine names"
            );
            self.chart.lose(self.place(node), path, message, "name the events");
        }
        Some(Trigger::Event(name.to_owned()))
    }

    fn guard(&mut self, text: &str, node: Node<'_, '_>, path: &str) -> Option<Guard> {
        let place = self.place(node);
        let parsed = Script::parse(Language::Ecma, text);
        if let (Ok(script), false) = (&parsed, self.options.guards.contains_key(text)) {
            for doubt in self.declared.doubts(script) {
                self.conversion(doubt, place, path);
            }
        }
        let declared = &self.declared;
        self.chart.script_guard(self.options, text, place, path, || Ok(declared.condition(&parsed?)))
    }

    fn conversion(&mut self, doubt: Doubt, place: Place, path: &str) {
        let remedy = "compare values of one kind, and with `===`";
        match doubt {
            Doubt::Surely(shown) => {
                let message = format!("in ECMAScript `==` makes a number of a text: here `{shown}` never holds");
                self.chart.problem(place, path, message, remedy);
            }
            Doubt::Perhaps(shown) => {
                let message =
                    format!("in ECMAScript `==` makes a number of a text: here `{shown}` holds for the text alone");
                self.chart.note(place, path, message, remedy);
            }
        }
    }

    fn resolve(&mut self) {
        for Pending { from, way, target, place, path } in std::mem::take(&mut self.targets) {
            let Some(found) = self.ids.get(&target).copied() else {
                if self.chart.is_full_of_problems() {
                    continue;
                }
                let known = self.chart.states.iter().skip(1).map(|state| state.name.as_str());
                let hint = crate::definition::suggestion::hint(&target, known);
                let message = format!("there is no state {target:?}{hint}");
                self.chart.problem(place, &path, message, "write the id of a state");
                continue;
            };
            match way {
                // It is not there if its event was refused.
                Some(way) => {
                    if let Some(way) = self.chart.states[from].ways.get_mut(way) {
                        way.target = Some(found);
                    }
                }
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

    /// An event's descriptor stands for all events that begin with it, part by part: each transition is taken by those of
    /// them that the machine names. `done.state.x` of a state that has no final state inside is an event like any other.
    fn match_events(&mut self) {
        let done: HashSet<String> = self
            .chart
            .states
            .iter()
            .filter(|state| state.is_final)
            .filter_map(|state| state.parent.filter(|parent| *parent != 0))
            .map(|parent| format!("{DONE}{}", self.chart.states[parent].name))
            .collect();
        let triggers = self.chart.states.iter().flat_map(|state| &state.ways).map(|way| &way.trigger);
        let named = triggers.filter_map(|trigger| match trigger {
            Trigger::Event(name) => Some(name.clone()),
            _ => None,
        });
        let known: BTreeSet<String> = named.chain(done.iter().cloned()).chain(self.sent.iter().cloned()).collect();
        let trigger = |name: &str| match name.strip_prefix(DONE) {
            Some(state) if done.contains(name) => Trigger::Done(state.to_owned()),
            _ => Trigger::Event(name.to_owned()),
        };
        for at in 0..self.chart.states.len() {
            for way in std::mem::take(&mut self.chart.states[at].ways) {
                let Trigger::Event(name) = &way.trigger else {
                    self.chart.states[at].ways.push(way);
                    continue;
                };
                let prefix = format!("{name}.");
                let longer = known.range(prefix.clone()..).take_while(|known| known.starts_with(&prefix));
                let matched: Vec<Trigger> = longer.map(|known| trigger(known)).collect();
                let own = trigger(name);
                // Nothing is ever called like the beginning of what is done; `done` alone may well be an event.
                if !(matched.iter().any(|found| matches!(found, Trigger::Done(_))) && DONE == prefix) {
                    self.chart.states[at].ways.push(Way { trigger: own, ..way.clone() });
                }
                for trigger in matched {
                    if self.chart.is_full() {
                        return;
                    }
                    self.chart.add_way(at, Way { trigger, ..way.clone() });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A megabyte in one line, all of it named as lost with its place.
    #[test]
    fn places_do_not_cost_more_the_later_they_are() {
        const LOSSES: usize = 60_000;
        let text = format!(
            "<scxml name='m'><state id='a'><onentry>{}</onentry><transition event='x' target='z'/></state><final id='z'/></scxml>",
            "<log label='é'/>".repeat(LOSSES)
        );
        assert!(text.len() > 1_000_000);
        let options = Options::default();
        let reader = read_by(&text, &options).unwrap();
        assert_eq!(reader.chart.lost.len(), LOSSES);
        assert!(reader.lines.looked() < LOSSES * 1_024, "{} bytes were looked at", reader.lines.looked());
        let last = &reader.chart.lost[LOSSES - 1];
        assert_eq!((last.line, last.column), (1, 40 + 16 * (LOSSES as u64 - 1)));
    }

    #[test]
    fn depth_is_counted_as_the_parser_counts_it() {
        let deep = |text: &str| check_depth(text, &Lines::new(text)).is_err();
        let nested = |open: &str| open.repeat(ELEMENTS_DEEP_MAX + 1);
        for open in [
            "<a>",
            "<a b='/>'>",
            "<a b=\"'/>\" c='>'>",
            "<!-- <b/> </c> --><a>",
            "<![CDATA[</a>]]><a>",
            "<?x </a>?><a>",
        ] {
            assert!(deep(&nested(open)), "{open}");
        }
        for open in ["<a/>", "<a b='>'/>", "<a></a>", "<!-- <a> -->", "<![CDATA[<a>]]>", "<?x <a>?>", "</a>"] {
            assert!(!deep(&nested(open)), "{open}");
        }
        // Each tag seems to end where the last one does.
        assert!(!deep(&format!("{}/>", "<a ".repeat(300_000))));
        assert!(!deep(&"<!--".repeat(250_000)));
    }
}
