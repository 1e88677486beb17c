//! What an expression is for decides what it may see, and what it has to yield.

use cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue, operators};

use super::{Fault, Root};

/// What an expression is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A guard or an assign.
    Decision,
    /// The name of a lock.
    LockKey,
    /// A list of people.
    People,
}

/// What a lock key, or a list of people, sees of the instance: what does not change with every move.
const STEADY_FIELDS: &[&str] = &["id", "state", "started_by"];

impl Purpose {
    /// The variables that it sees.
    pub(super) fn roots(self) -> &'static [Root] {
        match self {
            Self::Decision => &Root::ALL,
            Self::LockKey | Self::People => &[Root::Data, Root::Instance],
        }
    }

    /// Why this does not see a variable, or a field of it, and what to write instead.
    pub(super) fn hides(self, root: Root, field: Option<&str>) -> Option<(String, String)> {
        let name = root.name();
        let (what, why, keep) = match self {
            Self::Decision => return None,
            Self::LockKey => ("a lock key", "it names a lock of the instance", "what names the lock"),
            Self::People => ("a list of people", "it says who has a vote", "the people"),
        };
        let known = format!("{what} sees `data`, `instance.id`, `instance.state` and `instance.started_by`");
        match (root, field) {
            (Root::Data, _) => None,
            (Root::Instance, Some(field)) if STEADY_FIELDS.contains(&field) => None,
            (Root::Instance, None) => {
                Some((format!("{what} does not see `instance` as a whole"), format!("name a field: {known}")))
            }
            (Root::Instance, Some("version")) if self == Self::LockKey => {
                let message = "`instance.version` would name another lock after each move".to_owned();
                Some((message, known))
            }
            (Root::Instance, Some(field)) => Some((format!("{what} does not see `instance.{field}`"), known)),
            (Root::Event | Root::Actor | Root::Now, _) => {
                let message = format!("{what} does not see `{name}`: {why}, whoever sends");
                Some((message, format!("{known}; keep {keep} in the data")))
            }
        }
    }

    /// Refuses what cannot yield what is needed, as far as the text alone tells.
    pub(super) fn check_result(self, tree: &IdedExpr) -> Result<(), Vec<Fault>> {
        match (self, kind(tree)) {
            (Self::LockKey, Some(kind)) if kind != TEXT => {
                let message = format!("a lock key yields a text, and this yields {kind}");
                Err(vec![Fault::new(0, message, "write a text, for example `\"inventory/\" + data.sku`")])
            }
            (Self::People, Some(kind)) if kind != LIST => {
                let message = format!("a list of people is needed, and this yields {kind}");
                Err(vec![Fault::new(0, message, "write a list, for example `data.approvers`")])
            }
            _ => Ok(()),
        }
    }
}

const LIST: &str = "a list";
const TEXT: &str = "a text";

/// What an expression yields, where that does not depend on the data.
fn kind(node: &IdedExpr) -> Option<&'static str> {
    const TRUTH: &str = "true or false";
    const NUMBER: &str = "a number";
    match &node.expr {
        Expr::Literal(literal) => Some(match literal {
            LiteralValue::String(_) => TEXT,
            LiteralValue::Boolean(_) => TRUTH,
            LiteralValue::Int(_) | LiteralValue::UInt(_) | LiteralValue::Double(_) => NUMBER,
            LiteralValue::Bytes(_) => "bytes",
            LiteralValue::Null => "null",
        }),
        Expr::Select(select) if select.test => Some(TRUTH),
        Expr::List(_) => Some(LIST),
        Expr::Map(_) | Expr::Struct(_) => Some("a map"),
        Expr::Call(CallExpr { func_name, args, .. }) => match (func_name.as_str(), args.as_slice()) {
            (operators::CONDITIONAL, [_, yes, no]) => kind(yes).filter(|kind| *kind != TEXT).or_else(|| kind(no)),
            // Both sides are of one kind.
            (operators::ADD, [left, right]) => kind(left).or_else(|| kind(right)),
            ("string", _) => Some(TEXT),
            ("int" | "uint" | "double" | "size", _) => Some(NUMBER),
            (name, _) if name.starts_with("get") => Some(NUMBER),
            (operators::MULTIPLY | operators::DIVIDE | operators::MODULO, _) => Some(NUMBER),
            ("bool" | "contains" | "startsWith" | "endsWith" | "matches", _) => Some(TRUTH),
            (
                operators::EQUALS
                | operators::NOT_EQUALS
                | operators::LESS
                | operators::LESS_EQUALS
                | operators::GREATER
                | operators::GREATER_EQUALS
                | operators::LOGICAL_AND
                | operators::LOGICAL_OR
                | operators::LOGICAL_NOT
                | operators::IN,
                _,
            ) => Some(TRUTH),
            _ => None,
        },
        _ => None,
    }
}
