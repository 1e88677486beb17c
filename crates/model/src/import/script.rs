//! Conditions and values of other tools: the part of ECMAScript and of Symfony's expression language that means the same
//! in CEL.

use serde_json::{Number, Value};

use super::parser;

/// An expression that means the same in CEL.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Script {
    Literal(Value),
    /// A field of the data, or of what was sent.
    Path {
        of_event: bool,
        fields: Vec<String>,
    },
    /// Whether the field is there.
    Has {
        of_event: bool,
        fields: Vec<String>,
    },
    /// The state in which the run is.
    State,
    /// How many members or characters it has.
    Size(Box<Script>),
    /// Whether the actor has the role.
    HasRole(String),
    Not(Box<Script>),
    Negative(Box<Script>),
    Binary(Operator, Box<Script>, Box<Script>),
}

/// What is written between two operands, the loosest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operator {
    Or,
    And,
    /// `==`, for which a text equals the number that it reads as.
    Like,
    /// Its opposite.
    Unlike,
    /// `===`.
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Plus,
    Minus,
    Times,
    Rest,
}

/// Whose expression it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    /// ECMAScript, as SCXML has it.
    Ecma,
    /// Symfony's, in a workflow's guard.
    Symfony,
}

/// The longest text that is read: the longest that CEL takes.
const BYTES_MAX: usize = crate::limits::EXPRESSION_BYTES_MAX;

impl Operator {
    /// How tightly it binds; the same for operators that stand beside one another.
    pub(super) fn level(self) -> u8 {
        match self {
            Self::Or => 1,
            Self::And => 2,
            Self::Like
            | Self::Unlike
            | Self::Equal
            | Self::Unequal
            | Self::Less
            | Self::LessOrEqual
            | Self::Greater
            | Self::GreaterOrEqual => 3,
            Self::Plus | Self::Minus => 4,
            Self::Times | Self::Rest => 5,
        }
    }

    fn cel(self) -> &'static str {
        match self {
            Self::Or => "||",
            Self::And => "&&",
            Self::Like | Self::Equal => "==",
            Self::Unlike | Self::Unequal => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::Plus => "+",
            Self::Minus => "-",
            Self::Times => "*",
            Self::Rest => "%",
        }
    }
}

impl Script {
    /// Reads `text`.
    ///
    /// # Errors
    /// Why it is not carried over, to be said after `the guard "..."`.
    pub(super) fn parse(language: Language, text: &str) -> Result<Self, String> {
        if text.len() > BYTES_MAX {
            return Err(format!("has more than {BYTES_MAX} bytes"));
        }
        parser::parse(language, text)
    }

    /// What it comes to where that does not depend on anything.
    pub(super) fn constant(&self) -> Option<bool> {
        match self {
            Self::Literal(Value::Bool(value)) => Some(*value),
            Self::Not(inner) => inner.constant().map(|value| !value),
            Self::Binary(Operator::And, left, right) => match (left.constant(), right.constant()) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            },
            Self::Binary(Operator::Or, left, right) => match (left.constant(), right.constant()) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            },
            Self::Binary(operator, left, right) => match (&**left, &**right) {
                (Self::Literal(left), Self::Literal(right)) => compared(*operator, left, right),
                _ => None,
            },
            _ => None,
        }
    }

    /// The same on the data after `assigns`; none: a part of a field is assigned, or of an assigned field asked for, or it
    /// would be longer than any expression.
    pub(super) fn after(&self, assigns: &[(String, Self)]) -> Option<Self> {
        // Each assignment may use the one before several times.
        self.replaced(assigns).filter(|script| script.parts() <= BYTES_MAX)
    }

    fn parts(&self) -> usize {
        1 + self.inside().into_iter().map(Self::parts).sum::<usize>()
    }

    /// What it is made of.
    pub(super) fn inside(&self) -> Vec<&Self> {
        match self {
            Self::Literal(_) | Self::HasRole(_) | Self::State | Self::Path { .. } | Self::Has { .. } => Vec::new(),
            Self::Not(inner) | Self::Negative(inner) | Self::Size(inner) => vec![inner],
            Self::Binary(_, left, right) => vec![left, right],
        }
    }

    /// Whether it looks at what was sent.
    pub(super) fn sees_event(&self) -> bool {
        let is_event = matches!(self, Self::Path { of_event: true, .. } | Self::Has { of_event: true, .. });
        is_event || self.inside().into_iter().any(Self::sees_event)
    }

    /// Whether it looks at the field of the data.
    pub(super) fn reads(&self, field: &str) -> bool {
        let is_it = match self {
            Self::Path { of_event: false, fields } | Self::Has { of_event: false, fields } => {
                fields.first().is_some_and(|first| first == field)
            }
            _ => false,
        };
        is_it || self.inside().into_iter().any(|inner| inner.reads(field))
    }

    /// The same where the field `name` of the data is no field, but the state; an error: what of it is asked for.
    pub(super) fn with_state(self, name: &str) -> Result<Self, String> {
        let inside = |inner: Box<Self>| inner.with_state(name).map(Box::new);
        Ok(match self {
            Self::Path { of_event: false, fields } if fields.first().is_some_and(|first| first == name) => {
                if fields.len() > 1 {
                    return Err(format!("is not translated: `{}` is a part of the state", fields.join(".")));
                }
                Self::State
            }
            Self::Not(inner) => Self::Not(inside(inner)?),
            Self::Negative(inner) => Self::Negative(inside(inner)?),
            Self::Size(inner) => Self::Size(inside(inner)?),
            Self::Binary(operator, left, right) => Self::Binary(operator, inside(left)?, inside(right)?),
            other => other,
        })
    }

    fn replaced(&self, assigns: &[(String, Self)]) -> Option<Self> {
        let inside = |inner: &Self| inner.replaced(assigns).map(Box::new);
        let assigned = |fields: &[String]| assigns.iter().rfind(|(field, _)| Some(field) == fields.first());
        Some(match self {
            Self::Path { of_event: false, fields } => match assigned(fields) {
                None => self.clone(),
                Some((_, value)) if fields.len() == 1 => value.clone(),
                Some(_) => return None,
            },
            Self::Has { of_event: false, fields } => match assigned(fields) {
                None => self.clone(),
                Some(_) if fields.len() == 1 => Self::Literal(Value::Bool(true)),
                Some(_) => return None,
            },
            Self::Literal(_) | Self::HasRole(_) | Self::State | Self::Path { .. } | Self::Has { .. } => self.clone(),
            Self::Not(inner) => Self::Not(inside(inner)?),
            Self::Negative(inner) => inside(inner)?.negative(),
            Self::Size(inner) => Self::Size(inside(inner)?),
            Self::Binary(operator, left, right) => Self::binary(*operator, inside(left)?, inside(right)?),
        })
    }

    /// `-self`.
    pub(super) fn negative(self) -> Self {
        let Self::Literal(Value::Number(number)) = &self else { return Self::Negative(Box::new(self)) };
        let whole = number.as_i64().and_then(i64::checked_neg).map(Number::from);
        match whole.or_else(|| Number::from_f64(-number.as_f64()?)) {
            Some(number) => Self::Literal(Value::Number(number)),
            None => Self::Negative(Box::new(self)),
        }
    }

    /// Both with `operator` between them; the second alone where the first only says that it is there.
    pub(super) fn binary(operator: Operator, left: Box<Self>, right: Box<Self>) -> Self {
        match (operator, &*left) {
            (Operator::And, Self::Literal(Value::Bool(true))) | (Operator::Or, Self::Literal(Value::Bool(false))) => {
                *right
            }
            _ => Self::Binary(operator, left, right),
        }
    }

    /// In CEL.
    pub(super) fn cel(&self) -> String {
        match self {
            // Texts of JSON are texts of CEL: the escapes are the same.
            Self::Literal(value) => value.to_string(),
            Self::Path { of_event, fields } => {
                let root = if *of_event { "event" } else { "data" };
                fields.iter().fold(root.to_owned(), |path, field| path + "." + field)
            }
            Self::Has { of_event, fields } => {
                format!("has({})", Self::Path { of_event: *of_event, fields: fields.clone() }.cel())
            }
            Self::State => "instance.state".to_owned(),
            Self::Size(inner) => format!("size({})", inner.cel()),
            Self::HasRole(role) => format!("{} in actor.roles", Value::from(role.as_str())),
            Self::Not(inner) => format!("!{}", inner.unary_operand()),
            Self::Negative(inner) => format!("-{}", inner.unary_operand()),
            Self::Binary(operator, left, right) => {
                let level = operator.level();
                // Brackets mean nothing between conditions of one kind.
                let is_condition = matches!(operator, Operator::And | Operator::Or);
                let right = right.operand(if is_condition { level } else { level + 1 });
                format!("{} {} {right}", left.operand(level), operator.cel())
            }
        }
    }

    /// In CEL, as a part of a conjunction.
    pub(super) fn operand_of_and(&self) -> String {
        self.operand(Operator::And.level())
    }

    /// In CEL, in brackets unless it binds at least as tightly as `level`.
    fn operand(&self, level: u8) -> String {
        let own = match self {
            Self::Binary(operator, ..) => operator.level(),
            Self::HasRole(_) => Operator::Equal.level(),
            _ => u8::MAX,
        };
        if own >= level { self.cel() } else { format!("({})", self.cel()) }
    }

    fn unary_operand(&self) -> String {
        match self {
            Self::Literal(_) | Self::State | Self::Size(_) | Self::Path { .. } | Self::Has { .. } => self.cel(),
            _ => format!("({})", self.cel()),
        }
    }
}

fn compared(operator: Operator, left: &Value, right: &Value) -> Option<bool> {
    let order = match (left, right) {
        (Value::Number(left), Value::Number(right)) => left.as_f64()?.partial_cmp(&right.as_f64()?)?,
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        _ => return None,
    };
    Some(match operator {
        Operator::Like | Operator::Equal => order.is_eq(),
        Operator::Unlike | Operator::Unequal => order.is_ne(),
        Operator::Less => order.is_lt(),
        Operator::LessOrEqual => order.is_le(),
        Operator::Greater => order.is_gt(),
        Operator::GreaterOrEqual => order.is_ge(),
        _ => return None,
    })
}

impl Script {
    pub(super) fn is_comparison(&self) -> bool {
        matches!(self, Self::Binary(operator, ..) if operator.level() == Operator::Equal.level())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_means_the_same_is_translated() {
        for (text, cel) in [
            ("timer >= cook_time", "data.timer >= data.cook_time"),
            ("a === 'x' && !b || c.d !== null", "data.a == \"x\" && !data.b || data.c.d != null"),
            ("(a || b) && !(c && d)", "(data.a || data.b) && !(data.c && data.d)"),
            ("_event.data.n + 1 < a - (b - 2) * -3", "event.n + 1 < data.a - (data.b - 2) * -3"),
            ("a % 2 == 0", "data.a % 2 == 0"),
            ("-x < 1.5", "-data.x < 1.5"),
            ("x - -(-5) == -(-2.5)", "data.x - 5 == 2.5"),
            ("-(-(-(-x))) > !!y", "-(-(-(-data.x))) > !(!data.y)"),
            ("items.length > 0", "size(data.items) > 0"),
            ("_event.data.length == length", "event.length == data.length"),
        ] {
            let script = Script::parse(Language::Ecma, text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(script.cel(), cel, "{text}");
        }
        let guard = "is_granted('ROLE_ADMIN') and not subject.locked or subject.n > 3";
        let script = Script::parse(Language::Symfony, guard).unwrap();
        assert_eq!(script.cel(), "\"ROLE_ADMIN\" in actor.roles && !data.locked || data.n > 3");
    }

    #[test]
    fn what_may_mean_something_else_is_named() {
        for text in [
            "",
            "In('a')",
            "a / 2",
            "a = 1",
            "a[0]",
            "f(x)",
            "_event.name == 'x'",
            "x == undefined",
            "a ? b : c",
            "a < b < c",
            "'open",
            "1x",
            "a b",
            "(a",
            "~a",
            "typeof a",
            "a.",
            "größe > 1",
            "$x",
            "in + 1",
            "a.while",
            "\"\\u0041\"",
        ] {
            assert!(Script::parse(Language::Ecma, text).is_err(), "{text}");
        }
        for text in [
            "subject",
            "user.isAdmin()",
            "subject.getX()",
            "is_granted(x)",
            "is_granted('IS_AUTHENTICATED_FULLY')",
            "is_granted('EDIT')",
            "is_granted('A', subject)",
        ] {
            assert!(Script::parse(Language::Symfony, text).is_err(), "{text}");
        }
        let nested = "(".repeat(10_000) + "a" + &")".repeat(10_000);
        assert!(Script::parse(Language::Ecma, &nested).is_err());
        assert!(Script::parse(Language::Ecma, &"(".repeat(2_000)).is_err());
    }

    #[test]
    fn a_value_after_assigns_is_that_of_the_assigned() {
        let parse = |text| Script::parse(Language::Ecma, text).unwrap();
        let assigns = [("timer".to_owned(), parse("timer + 1")), ("open".to_owned(), parse("false"))];
        assert_eq!(parse("timer >= max").after(&assigns).unwrap().cel(), "data.timer + 1 >= data.max");
        assert_eq!(parse("open && x").after(&assigns).unwrap().constant(), Some(false));
        assert_eq!(parse("2 > 1 || x").constant(), Some(true));
        assert_eq!(parse("-timer < -x").after(&[("timer".to_owned(), parse("-5"))]).unwrap().cel(), "5 < -data.x");
        assert!(parse("timer.ms > 1").after(&assigns).is_none());
    }

    #[test]
    fn what_doubles_with_each_assign_is_not_carried_over() {
        let mut value = Script::parse(Language::Ecma, "x + x");
        for _ in 0..64 {
            let assigns = value.map(|value| [("x".to_owned(), value)]);
            let doubled = assigns.map(|assigns| Script::parse(Language::Ecma, "x + x").unwrap().after(&assigns));
            value = doubled.and_then(|doubled| doubled.ok_or_else(String::new));
        }
        assert!(value.is_err());
    }
}
