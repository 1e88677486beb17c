//! What an approval asks for: who must agree, who may stop it, and what may be done with a vote.

use serde::Serialize;

use crate::approval::people::constant;
use crate::expression::Expression;

/// Who must agree to a transition. All groups have to be full, and a person fills one place only.
#[derive(Debug)]
pub(crate) struct ApprovalRule {
    pub(crate) groups: Vec<Group>,
    /// The event by which one of them ends it at once.
    pub(crate) veto: Option<Veto>,
    /// To whom a vote may be handed; none: to nobody.
    pub(crate) delegation: Option<Who>,
    /// Who may add an approver; none: nobody.
    pub(crate) adding: Option<Entitled>,
    /// Whether votes, delegations and additions may be taken back.
    pub(crate) recall: bool,
    /// Whether whoever started the run has no vote.
    pub(crate) exclude_starter: bool,
}

/// So many of these.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) quorum: Quorum,
    pub(crate) who: Who,
}

/// How many of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quorum {
    /// So many, at least one.
    Count(usize),
    /// All who are named.
    All,
}

/// Some people: who is named, has one of the roles, or both where both are asked for. Neither: anybody.
#[derive(Debug, Default)]
pub(crate) struct Who {
    pub(crate) of: Option<People>,
    /// Any of these, sorted.
    pub(crate) roles: Vec<String>,
}

/// People by their ids.
#[derive(Debug)]
pub(crate) enum People {
    /// Sorted and without repetition.
    Named(Vec<String>),
    /// A list of ids, computed from the data.
    Computed(Expression),
}

/// Who may do something about an approval.
#[derive(Debug)]
pub(crate) enum Entitled {
    /// Whoever has a vote in it.
    Approvers,
    /// These.
    Only(Who),
}

/// One no that ends it.
#[derive(Debug)]
pub(crate) struct Veto {
    /// The event that is taken at once.
    pub(crate) event: String,
    pub(crate) who: Entitled,
}

/// Who must agree, laid out for people and programs to look at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ApprovalOutline {
    /// Votes needed; none: that depends on the data.
    pub quorum: Option<usize>,
    /// Any of these roles; empty: no role is asked for.
    pub roles: Vec<String>,
    /// How many of whom, all of which have to be full.
    pub groups: Vec<GroupOutline>,
    /// The event by which one of them ends it.
    pub veto: Option<String>,
    /// Whether a vote may be handed to somebody else.
    pub delegation: bool,
    /// Whether a vote may be taken back.
    pub recall: bool,
    /// Whether approvers may be added.
    pub add_approvers: bool,
    /// Whether whoever started the run has no vote.
    pub exclude_starter: bool,
}

/// So many of these.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GroupOutline {
    /// A number, or `all`.
    pub quorum: String,
    /// Who is named, or the text of the expression that names them; none: nobody is named.
    pub of: Option<String>,
    /// Any of these roles.
    pub roles: Vec<String>,
}

impl ApprovalOutline {
    /// Who must agree, in a few words: `2 of finance, manager and 1 of legal; veto reject`.
    pub fn text(&self) -> String {
        let mut text = self.groups.iter().map(GroupOutline::text).collect::<Vec<_>>().join(" and ");
        if let Some(event) = &self.veto {
            text.push_str(&format!("; veto {event}"));
        }
        for (is_said, word) in [
            (self.delegation, "delegation"),
            (self.recall, "recall"),
            (self.add_approvers, "more approvers may be added"),
            (self.exclude_starter, "not whoever started the run"),
        ] {
            if is_said {
                text.push_str(&format!("; {word}"));
            }
        }
        text
    }
}

impl GroupOutline {
    fn text(&self) -> String {
        let roles = self.roles.join(", ");
        match &self.of {
            None if roles.is_empty() => format!("{} of anybody", self.quorum),
            None => format!("{} of {roles}", self.quorum),
            Some(people) if roles.is_empty() => format!("{} of {people}", self.quorum),
            Some(people) => format!("{} of {people} with the role {roles}", self.quorum),
        }
    }
}

impl Quorum {
    /// Votes needed of so many people. All of nobody is not nobody.
    pub(crate) fn of(self, people: usize) -> usize {
        match self {
            Self::Count(count) => count,
            Self::All => people.max(1),
        }
    }
}

impl People {
    /// As they are written.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Named(people) => people.join(", "),
            Self::Computed(expression) => expression.text().to_owned(),
        }
    }

    /// Those who are named, as far as the text alone tells.
    pub(crate) fn known(&self) -> Option<Vec<String>> {
        match self {
            Self::Named(people) => Some(people.clone()),
            Self::Computed(expression) => constant(expression)?.ok(),
        }
    }
}

impl ApprovalRule {
    /// The roles that any of its groups asks for, sorted.
    pub(crate) fn roles(&self) -> Vec<String> {
        let mut roles: Vec<String> = self.groups.iter().flat_map(|group| group.who.roles.iter().cloned()).collect();
        roles.sort_unstable();
        roles.dedup();
        roles
    }

    /// The same for people and programs to look at.
    pub(crate) fn outline(&self) -> ApprovalOutline {
        ApprovalOutline {
            quorum: self.groups.iter().map(Group::known_quorum).sum(),
            roles: self.roles(),
            groups: self.groups.iter().map(Group::outline).collect(),
            veto: self.veto.as_ref().map(|veto| veto.event.clone()),
            delegation: self.delegation.is_some(),
            recall: self.recall,
            add_approvers: self.adding.is_some(),
            exclude_starter: self.exclude_starter,
        }
    }
}

impl Group {
    /// Votes needed, as far as the text alone tells.
    pub(crate) fn known_quorum(&self) -> Option<usize> {
        match self.quorum {
            Quorum::Count(count) => Some(count),
            Quorum::All => self.who.of.as_ref()?.known().map(|people| people.len()),
        }
    }

    fn outline(&self) -> GroupOutline {
        GroupOutline {
            quorum: match self.quorum {
                Quorum::Count(count) => count.to_string(),
                Quorum::All => "all".to_owned(),
            },
            of: self.who.of.as_ref().map(People::text),
            roles: self.who.roles.clone(),
        }
    }
}
