//! What SCXML does besides: its data, and the content that it executes, of which only assignments in transitions are
//! carried over.

use roxmltree::Node;
use serde_json::Value;

use super::chart::{Guard, quoted};
use super::presence::Declared;
use super::script::{Language, Script};
use super::scxml::{Reader, is_own};
use crate::limits::ASSIGNS_MAX;

/// What the variables begin with.
pub(super) fn declared<'a, 'i: 'a>(data: impl Iterator<Item = Node<'a, 'i>>) -> Declared {
    let value = |node: Node<'_, '_>| {
        let id = node.attribute("id").unwrap_or_default().to_owned();
        let is_empty = node.attribute("src").is_none() && text_of(node).is_none();
        (id, (!is_empty).then(|| literal(node).unwrap_or(Value::Null)))
    };
    Declared(data.map(value).collect())
}

fn text_of<'a>(data: Node<'a, '_>) -> Option<&'a str> {
    data.attribute("expr").or(data.text()).map(str::trim).filter(|text| !text.is_empty())
}

/// The value of `<data>`, where it is written as such.
fn literal(data: Node<'_, '_>) -> Option<Value> {
    let text = text_of(data)?;
    serde_json::from_str(text).ok().or_else(|| match Script::parse(Language::Ecma, text) {
        Ok(Script::Literal(value)) => Some(value),
        _ => None,
    })
}

impl Reader<'_> {
    /// What a transition assigns; its other executable content is lost.
    pub(super) fn assigns(&mut self, node: Node<'_, '_>, path: &str) -> Vec<(String, Script)> {
        let mut assigns: Vec<(String, Script)> = Vec::new();
        for element in self.elements(node, path) {
            let name = element.tag_name().name();
            if name != "assign" {
                self.lose_content(element, "", path);
                continue;
            }
            let location = element.attribute("location").unwrap_or_default().trim();
            let value = Script::parse(Language::Ecma, element.attribute("expr").unwrap_or_default());
            // Those before it have been made: it sees what they assigned.
            match (Script::parse(Language::Ecma, location), value.map(|value| value.after(&assigns))) {
                (Ok(Script::Path { of_event: false, mut fields }), Ok(Some(value)))
                    if fields.len() == 1 && assigns.len() < ASSIGNS_MAX =>
                {
                    assigns.retain(|(field, _)| *field != fields[0]);
                    assigns.extend(fields.pop().map(|field| (field, value)));
                }
                _ => {
                    let message = format!("the assignment to {location:?} cannot be carried over");
                    let remedy = "assign a field by an expression that means the same in CEL";
                    self.chart.problem(self.place(element), path, message, remedy);
                }
            }
        }
        assigns
    }

    /// Executable content of which nothing is carried over.
    pub(super) fn executable(&mut self, node: Node<'_, '_>, what: &str, path: &str) {
        if what == "<script>" {
            let message = format!("{what} is not carried over");
            return self.chart.lose(self.place(node), path, message, "do this where the run is watched");
        }
        for element in self.elements(node, path) {
            self.lose_content(element, &format!(" in {what}"), path);
        }
    }

    /// Says what is not done. An event that is sent later is a timer, which is written in another way here.
    fn lose_content(&mut self, element: Node<'_, '_>, within: &str, path: &str) {
        const TELLING: [&str; 8] = ["event", "label", "location", "expr", "src", "sendid", "delay", "delayexpr"];
        let name = element.tag_name().name();
        let assigns = element.descendants().filter(|node| is_own(node) && node.tag_name().name() == "assign");
        for assign in assigns {
            let location = assign.attribute("location").unwrap_or_default().trim();
            let end = location.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '$').unwrap_or(location.len());
            self.unassigned.push((location[..end].to_owned(), self.place(assign), path.to_owned()));
        }
        let about: Vec<String> = TELLING
            .iter()
            .filter_map(|name| element.attribute(*name).map(|value| (*name, value)))
            .map(|(name, value)| if name.starts_with("delay") { format!("{name} {value}") } else { value.to_owned() })
            .collect();
        let about = if about.is_empty() { String::new() } else { format!(" ({})", about.join(", ")) };
        let message = format!("<{name}>{about}{within} is not carried over");
        let is_timer = name == "send" && (element.has_attribute("delay") || element.has_attribute("delayexpr"));
        let remedy = match name {
            "send" if is_timer => {
                "give the state an `after` with that time in the definition; leaving the state cancels it"
            }
            "cancel" => "leaving a state cancels its timers here",
            _ => "do this where the run is watched",
        };
        self.chart.lose(self.place(element), path, message, remedy);
    }

    /// Without an assignment of a field that a condition or a value reads it would be another machine.
    pub(super) fn check_unassigned(&mut self) {
        for (field, place, path) in std::mem::take(&mut self.unassigned) {
            let mut ways = self.chart.states.iter().flat_map(|state| &state.ways);
            let reads = ways.any(|way| {
                way.guard.as_ref().is_some_and(|guard: &Guard| guard.reads(&field))
                    || way.assigns.iter().any(|(_, value)| value.reads(&field))
            });
            if reads {
                let message = format!(
                    "here {field:?} is assigned, which is not carried over, and which conditions or values of the \
                     machine read"
                );
                self.chart.problem(
                    place,
                    &path,
                    message,
                    "assign it in the transitions, outside of <if> and <foreach>",
                );
            }
        }
    }

    pub(super) fn datamodel(&mut self, node: Node<'_, '_>, path: &str) {
        let data = self.elements(node, path);
        let Some(first) = data.first() else { return };
        let id = |node: &Node<'_, '_>| node.attribute("id").unwrap_or_default().to_owned();
        let value = |node: &Node<'_, '_>| (id(node), literal(*node).unwrap_or_default());
        let start: crate::Data = data.iter().map(value).collect();
        let is_computed =
            |node: &&Node<'_, '_>| node.has_attribute("src") || text_of(**node).is_some() && literal(**node).is_none();
        let computed: Vec<String> = data.iter().filter(is_computed).map(id).collect();
        let message = "the data that it begins with is not carried over: data comes with the start";
        let text = serde_json::Value::Object(start).to_string();
        let mut remedy = format!("lockkeeper start WORKFLOW/ID --data {}", quoted(&text));
        if !computed.is_empty() {
            remedy += &format!("; what is computed has to be filled in: {}", computed.join(", "));
        }
        self.chart.lose(self.place(*first), path, message, remedy);
    }
}
