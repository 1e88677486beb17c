//! Reading a transition's block `approval`.

use super::approval::{ApprovalRule, Entitled, Group, People, Quorum, Veto, Who};
use super::fields::{Findings, join};
use super::node::{Field, Node, Place, Value};
use super::suggestion::hint;
use crate::approval::people::{Asked, constant, most_filled};
use crate::expression::Expression;
use crate::limits::{APPROVAL_GROUPS_MAX, QUORUM_MAX};
use crate::names::check_name;

/// The fields of the block.
const KNOWN: &[&str] =
    &["quorum", "of", "roles", "groups", "veto", "delegation", "recall", "add_approvers", "exclude_starter"];

/// The fields that say how many of whom.
const GROUP: &[&str] = &["quorum", "of", "roles"];

/// The fields that say who.
const WHO: &[&str] = &["of", "roles"];

impl Findings<'_> {
    /// A block `approval`; none: something in it is wrong.
    pub(super) fn approval(&mut self, node: &Node, path: &str) -> Option<ApprovalRule> {
        let problems = self.problems.len();
        let fields = self.block(node, path, KNOWN);
        let get = |name: &str| fields.iter().find(|field| field.name == name).copied();
        let groups = match get("groups") {
            Some(field) => {
                for beside in fields.iter().filter(|field| GROUP.contains(&field.name.as_str())) {
                    let message = format!("`{}` beside `groups`", beside.name);
                    self.add(beside.place, &join(path, &beside.name), message, "write it in each of the groups");
                }
                self.groups(&field.node, &join(path, "groups"))
            }
            None => self.group(&fields, node.place, path).into_iter().collect(),
        };
        let rule = ApprovalRule {
            groups,
            veto: get("veto").and_then(|field| self.veto(&field.node, &join(path, "veto"))),
            delegation: get("delegation").and_then(|field| self.delegation(&field.node, &join(path, "delegation"))),
            adding: get("add_approvers").and_then(|field| self.entitled(&field.node, &join(path, "add_approvers"))),
            recall: get("recall").is_some_and(|field| self.flag(field, path)),
            exclude_starter: get("exclude_starter").is_some_and(|field| self.flag(field, path)),
        };
        if self.problems.len() > problems {
            return None;
        }
        let needed: usize = rule.groups.iter().filter_map(Group::known_quorum).sum();
        if needed > QUORUM_MAX {
            let message = format!("{needed} must agree; at most {QUORUM_MAX} may be asked for");
            // All who are named by a constant were not counted before.
            let remedy = "ask for fewer, or split it into several states";
            self.judge(node.place, path, message, remedy);
            return Some(rule);
        }
        self.check_reach(&rule, node.place, path);
        Some(rule)
    }

    /// Refuses what could never be full, as far as the text alone tells.
    fn check_reach(&mut self, rule: &ApprovalRule, place: Place, path: &str) {
        let problems = (self.problems.len(), self.doubts.len());
        let groups: Vec<(Quorum, Vec<String>)> =
            rule.groups.iter().filter_map(|group| Some((group.quorum, group.who.of.as_ref()?.known()?))).collect();
        let (most, needed) = reach(&groups, None);
        if most < needed {
            let message = format!("those who are named fill {most} of {needed} places, each of them one");
            self.judge(place, path, message, "name more people, or ask for fewer");
        }
        let mut named: Vec<&String> = groups.iter().flat_map(|(_, people)| people).collect();
        named.sort_unstable();
        named.dedup();
        let is_stuck = |starter: &&&String| {
            let (most, needed) = reach(&groups, Some(starter));
            most < needed
        };
        if (self.problems.len(), self.doubts.len()) != problems {
            return;
        }
        // Each look is a matching: none where nobody asks.
        if let Some(starter) = rule.exclude_starter.then(|| named.iter().find(is_stuck)).flatten() {
            let message = format!("`exclude_starter`: a run that {starter:?} has started could never be approved");
            self.doubt(place, path, message, "name more people, or ask for fewer");
        }
        let Some(to) = &rule.delegation else { return };
        let hands = to.of.as_ref().and_then(People::known);
        if hands.is_some_and(|hands| hands.iter().all(|hand| named.contains(&hand))) {
            let message = "`delegation`: all to whom a vote may be handed have one of their own";
            self.doubt(place, path, message, "name others, or write `delegation: true`");
        } else if !to.roles.is_empty() && !rule.recall {
            let message = "`delegation`: whether a hand has the role is known when it votes only; a vote that was handed to one \
                           that has not is lost for this visit";
            self.doubt(place, path, message, "add `recall: true`, so that it can be taken back");
        }
    }

    fn flag(&mut self, field: &Field, path: &str) -> bool {
        self.bool(&field.node, &join(path, &field.name)).unwrap_or_default()
    }

    fn groups(&mut self, node: &Node, path: &str) -> Vec<Group> {
        let items = match &node.value {
            Value::List(items) if (1..=APPROVAL_GROUPS_MAX).contains(&items.len()) => items,
            Value::List(items) => {
                let message = format!("{} groups; 1 to {APPROVAL_GROUPS_MAX} are allowed", items.len());
                self.add(node.place, path, message, "write at least one, and put those together that ask for the same");
                return Vec::new();
            }
            other => {
                let message = format!("expected a list of groups, found {}", other.kind());
                let remedy = "write a list, for example `[{quorum: 2, roles: [finance]}, {quorum: 1, roles: [legal]}]`";
                self.add(node.place, path, message, remedy);
                return Vec::new();
            }
        };
        let group = |(at, item): (usize, &Node)| {
            let path = format!("{path}[{at}]");
            let fields = self.block(item, &path, GROUP);
            self.group(&fields, item.place, &path)
        };
        items.iter().enumerate().filter_map(group).collect()
    }

    /// How many of whom.
    fn group(&mut self, fields: &[&Field], place: Place, path: &str) -> Option<Group> {
        let who = self.who(fields, path);
        let Some(field) = fields.iter().find(|field| field.name == "quorum") else {
            let remedy = "write how many must agree, for example `quorum: 2`, `quorum: any` or `quorum: all`";
            self.add(place, path, "an approval without a quorum", remedy);
            return None;
        };
        let path = join(path, "quorum");
        let quorum = match &field.node.value {
            Value::Text(text) if text == "any" => Quorum::Count(1),
            Value::Text(text) if text == "all" => Quorum::All,
            Value::Text(text) => {
                let message = format!("unknown quorum {text:?}{}", hint(text, ["any", "all"]));
                self.add(field.node.place, &path, message, "write a number, `any` or `all`");
                return None;
            }
            _ => Quorum::Count(self.count(&field.node, &path, QUORUM_MAX)?),
        };
        match (quorum, &who.of) {
            (Quorum::All, None) => {
                let remedy = "name the people in `of`: `of: [ann, bob]`, or a list in the data: `of: data.approvers`";
                self.add(field.node.place, &path, "all of whom? Who has a role is not known beforehand", remedy);
                return None;
            }
            (Quorum::Count(count), Some(People::Named(people))) if count > people.len() => {
                let message = format!("{count} of {} people", people.len());
                self.add(field.node.place, &path, message, format!("write a number from 1 to {}", people.len()));
                return None;
            }
            _ => {}
        }
        Some(Group { quorum, who })
    }

    /// The fields `of` and `roles`.
    fn who(&mut self, fields: &[&Field], path: &str) -> Who {
        let mut who = Who::default();
        for field in fields {
            let (node, path) = (&field.node, join(path, &field.name));
            match field.name.as_str() {
                "of" => who.of = self.people(node, &path),
                "roles" => who.roles = self.roles(node, &path),
                _ => {}
            }
        }
        who
    }

    /// A list of ids, or an expression that yields one.
    fn people(&mut self, node: &Node, path: &str) -> Option<People> {
        let items = match &node.value {
            Value::List(items) => items,
            Value::Text(_) => return self.computed(node, path),
            other => {
                let message = format!("expected people, found {}", other.kind());
                let remedy = "write a list of ids, `[ann, bob]`, or an expression that yields one, `data.approvers`";
                self.add(node.place, path, message, remedy);
                return None;
            }
        };
        if !(1..=QUORUM_MAX).contains(&items.len()) {
            let message = format!("{} people; 1 to {QUORUM_MAX} may be named", items.len());
            self.add(node.place, path, message, "name those who may vote, or ask for a role");
            return None;
        }
        let mut people = Vec::with_capacity(items.len());
        for (at, item) in items.iter().enumerate() {
            let path = format!("{path}[{at}]");
            let name = self.text(item, &path)?;
            if let Err(error) = check_name("actor id", name) {
                self.name_error(item.place, &path, &error);
                return None;
            }
            people.push(name.to_owned());
        }
        people.sort_unstable();
        people.dedup();
        Some(People::Named(people))
    }

    /// An expression that yields people. One that looks at nothing is known now.
    fn computed(&mut self, node: &Node, path: &str) -> Option<People> {
        let expression = self.expression_by(node, path, Expression::compile_people)?;
        let remedy = "write a list of ids, `[ann, bob]`, or an expression that yields one, `data.approvers`";
        match constant(&expression) {
            Some(Err(detail)) => self.judge(node.place, path, format!("nobody is named: {detail}"), remedy),
            Some(Ok(people)) if people.is_empty() => self.judge(node.place, path, "nobody is named", remedy),
            _ => {}
        }
        Some(People::Computed(expression))
    }

    /// `reject`, or `{event: reject, roles: [legal]}`.
    fn veto(&mut self, node: &Node, path: &str) -> Option<Veto> {
        if let Value::Text(_) = node.value {
            return Some(Veto { event: self.name(node, path, "event")?, who: Entitled::Approvers });
        }
        let fields = self.block(node, path, &["event", "of", "roles"]);
        let Some(event) = fields.iter().find(|field| field.name == "event") else {
            self.add(
                node.place,
                path,
                "a veto without an event",
                "write the event that ends it, for example `veto: reject`",
            );
            return None;
        };
        let event = self.name(&event.node, &join(path, "event"), "event")?;
        let is_narrow = fields.iter().any(|field| WHO.contains(&field.name.as_str()));
        let who = self.who(&fields, path);
        Some(Veto { event, who: if is_narrow { Entitled::Only(who) } else { Entitled::Approvers } })
    }

    /// `true`, or a block that says to whom.
    fn delegation(&mut self, node: &Node, path: &str) -> Option<Who> {
        match self.entitled(node, path)? {
            Entitled::Approvers => Some(Who::default()),
            Entitled::Only(who) => Some(who),
        }
    }

    /// `true`, or a block that says who; none: `false`.
    fn entitled(&mut self, node: &Node, path: &str) -> Option<Entitled> {
        match &node.value {
            Value::Bool(true) => Some(Entitled::Approvers),
            Value::Bool(false) => None,
            Value::Map(fields) if !fields.is_empty() => {
                let fields = self.block(node, path, WHO);
                Some(Entitled::Only(self.who(&fields, path)))
            }
            other => {
                let message = format!("expected true, false or a block of fields, found {}", other.kind());
                self.add(node.place, path, message, "write `true`, or who: `{roles: [manager]}`, `{of: [ann, bob]}`");
                None
            }
        }
    }
}

/// How many places those who are named can fill at most, `without` one of them, and how many there are. All of nobody is
/// one that cannot be filled.
fn reach(groups: &[(Quorum, Vec<String>)], without: Option<&str>) -> (usize, usize) {
    let people: Vec<Vec<String>> = groups
        .iter()
        .map(|(_, people)| people.iter().filter(|person| Some(person.as_str()) != without).cloned().collect())
        .collect();
    let asked: Vec<Asked<'_>> = groups
        .iter()
        .zip(&people)
        .map(|((quorum, _), people)| Asked { quorum: quorum.of(people.len()), people })
        .collect();
    (most_filled(&asked), asked.iter().map(|asked| asked.quorum).sum())
}
