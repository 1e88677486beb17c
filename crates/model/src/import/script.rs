//! Conditions and values of other tools: the part of ECMAScript and of Symfony's expression language that means the same
//! in CEL.

use serde_json::Value;

/// An expression that means the same in CEL.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Script {
    Literal(Value),
    /// A field of the data, or of what was sent.
    Path {
        of_event: bool,
        fields: Vec<String>,
    },
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

/// Operands inside one another: the parser is recursive.
const DEPTH_MAX: usize = 24;

/// The longest text that is read: the longest that CEL takes.
const BYTES_MAX: usize = crate::limits::EXPRESSION_BYTES_MAX;

impl Operator {
    /// How tightly it binds; the same for operators that stand beside one another.
    fn level(self) -> u8 {
        match self {
            Self::Or => 1,
            Self::And => 2,
            Self::Equal | Self::Unequal | Self::Less | Self::LessOrEqual | Self::Greater | Self::GreaterOrEqual => 3,
            Self::Plus | Self::Minus => 4,
            Self::Times | Self::Rest => 5,
        }
    }

    fn cel(self) -> &'static str {
        match self {
            Self::Or => "||",
            Self::And => "&&",
            Self::Equal => "==",
            Self::Unequal => "!=",
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
        let mut parser = Parser { language, tokens: tokens(text)?, at: 0, depth: 0 };
        let script = parser.binary(1)?;
        match parser.tokens.get(parser.at) {
            None => Ok(script),
            Some(token) => Err(format!("is not translated: {} is not understood here", token.shown())),
        }
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
        match self {
            Self::Literal(_) | Self::HasRole(_) | Self::Path { .. } => 1,
            Self::Not(inner) | Self::Negative(inner) => inner.parts() + 1,
            Self::Binary(_, left, right) => left.parts() + right.parts() + 1,
        }
    }

    fn replaced(&self, assigns: &[(String, Self)]) -> Option<Self> {
        let inside = |inner: &Self| inner.replaced(assigns).map(Box::new);
        Some(match self {
            Self::Literal(_) | Self::HasRole(_) | Self::Path { of_event: true, .. } => self.clone(),
            Self::Path { fields, .. } => match assigns.iter().rfind(|(field, _)| Some(field) == fields.first()) {
                None => self.clone(),
                Some((_, value)) if fields.len() == 1 => value.clone(),
                Some(_) => return None,
            },
            Self::Not(inner) => Self::Not(inside(inner)?),
            Self::Negative(inner) => Self::Negative(inside(inner)?),
            Self::Binary(operator, left, right) => Self::Binary(*operator, inside(left)?, inside(right)?),
        })
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
            Self::HasRole(role) => format!("{} in actor.roles", Value::from(role.as_str())),
            Self::Not(inner) => format!("!{}", inner.unary_operand()),
            Self::Negative(inner) => format!("-{}", inner.unary_operand()),
            Self::Binary(operator, left, right) => {
                let level = operator.level();
                format!("{} {} {}", left.operand(level), operator.cel(), right.operand(level + 1))
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
            Self::Literal(_) | Self::Path { .. } => self.cel(),
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
        Operator::Equal => order.is_eq(),
        Operator::Unequal => order.is_ne(),
        Operator::Less => order.is_lt(),
        Operator::LessOrEqual => order.is_le(),
        Operator::Greater => order.is_gt(),
        Operator::GreaterOrEqual => order.is_ge(),
        _ => return None,
    })
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Word(String),
    Number(Value),
    Text(String),
    Mark(&'static str),
}

impl Token {
    fn shown(&self) -> String {
        match self {
            Self::Word(word) => format!("`{word}`"),
            Self::Number(number) => format!("`{number}`"),
            Self::Text(text) => format!("{text:?}"),
            Self::Mark(mark) => format!("`{mark}`"),
        }
    }
}

/// What is no word, number or text, the longest first.
const MARKS: &[&str] = &[
    "===", "!==", "==", "!=", "<=", ">=", "&&", "||", "<", ">", "!", "+", "-", "*", "/", "%", "(", ")", "[", "]", ".",
    ",", "?", ":", "=",
];

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let length;
        if first.is_alphabetic() || first == '_' || first == '$' {
            length = rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '$').unwrap_or(rest.len());
            found.push(Token::Word(rest[..length].to_owned()));
        } else if first.is_ascii_digit() {
            length = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '.').unwrap_or(rest.len());
            let number =
                serde_json::from_str(&rest[..length]).map_err(|_| format!("has the number {}", &rest[..length]))?;
            found.push(Token::Number(number));
        } else if first == '\'' || first == '"' {
            let (text, end) = text_literal(rest, first)?;
            found.push(Token::Text(text));
            length = end;
        } else {
            let mark = MARKS.iter().find(|mark| rest.starts_with(**mark));
            let mark = mark.ok_or_else(|| format!("is not translated: `{first}` is not understood"))?;
            found.push(Token::Mark(mark));
            length = mark.len();
        }
        rest = rest[length..].trim_start();
    }
    Ok(found)
}

/// A text in quotes, and its length with them.
fn text_literal(rest: &str, quote: char) -> Result<(String, usize), String> {
    let mut text = String::new();
    let mut chars = rest.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            _ if c == quote => return Ok((text, at + 1)),
            '\\' => match chars.next() {
                Some((_, escaped @ ('\\' | '\'' | '"'))) => text.push(escaped),
                Some((_, 'n')) => text.push('\n'),
                Some((_, 't')) => text.push('\t'),
                _ => return Err("has an escape that is not translated".to_owned()),
            },
            _ => text.push(c),
        }
    }
    Err("has a text that does not end".to_owned())
}

struct Parser {
    language: Language,
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
}

impl Parser {
    fn take(&mut self, mark: &str) -> bool {
        let found = matches!(self.tokens.get(self.at), Some(Token::Mark(found)) if *found == mark);
        self.at += usize::from(found);
        found
    }

    fn take_word(&mut self, word: &str) -> bool {
        let found = matches!(self.tokens.get(self.at), Some(Token::Word(found)) if found == word);
        self.at += usize::from(found);
        found
    }

    fn next(&mut self) -> Result<Token, String> {
        let token = self.tokens.get(self.at).cloned();
        self.at += 1;
        token.ok_or_else(|| "is not translated: it ends too early".to_owned())
    }

    /// Operands with operators that bind at least as tightly as `level`.
    fn binary(&mut self, level: u8) -> Result<Script, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err("is not translated: it is nested too deeply".to_owned());
        }
        let mut left = self.unary()?;
        while let Some(operator) = self.operator().filter(|operator| operator.level() >= level) {
            self.at += 1;
            let right = self.binary(operator.level() + 1)?;
            // A comparison's result compared again means another thing in each language.
            if operator.level() == Operator::Equal.level() && left.is_comparison() {
                return Err("is not translated: a comparison is compared".to_owned());
            }
            left = Script::Binary(operator, Box::new(left), Box::new(right));
        }
        self.depth -= 1;
        Ok(left)
    }

    fn operator(&self) -> Option<Operator> {
        let is_symfony = self.language == Language::Symfony;
        Some(match self.tokens.get(self.at)? {
            Token::Mark("||") => Operator::Or,
            Token::Mark("&&") => Operator::And,
            Token::Mark("==" | "===") => Operator::Equal,
            Token::Mark("!=" | "!==") => Operator::Unequal,
            Token::Mark("<") => Operator::Less,
            Token::Mark("<=") => Operator::LessOrEqual,
            Token::Mark(">") => Operator::Greater,
            Token::Mark(">=") => Operator::GreaterOrEqual,
            Token::Mark("+") => Operator::Plus,
            Token::Mark("-") => Operator::Minus,
            Token::Mark("*") => Operator::Times,
            Token::Mark("%") => Operator::Rest,
            Token::Word(word) if is_symfony && word == "or" => Operator::Or,
            Token::Word(word) if is_symfony && word == "and" => Operator::And,
            _ => return None,
        })
    }

    fn unary(&mut self) -> Result<Script, String> {
        // `!` and `-` before one another mean nothing that one of them does not.
        if self.take("!") || self.language == Language::Symfony && self.take_word("not") {
            return Ok(Script::Not(Box::new(self.primary()?)));
        }
        if self.take("-") {
            return Ok(match self.primary()? {
                Script::Literal(Value::Number(number)) => {
                    Script::Literal(serde_json::from_str(&format!("-{number}")).unwrap_or(Value::Null))
                }
                other => Script::Negative(Box::new(other)),
            });
        }
        self.primary()
    }

    fn primary(&mut self) -> Result<Script, String> {
        match self.next()? {
            Token::Number(number) => Ok(Script::Literal(number)),
            Token::Text(text) => Ok(Script::Literal(Value::from(text))),
            Token::Word(word) => self.word(&word),
            Token::Mark("(") => {
                let inner = self.binary(1)?;
                if self.take(")") { Ok(inner) } else { Err("is not translated: a bracket is not closed".to_owned()) }
            }
            token => Err(format!("is not translated: {} is not understood here", token.shown())),
        }
    }

    fn word(&mut self, word: &str) -> Result<Script, String> {
        match (self.language, word) {
            (_, "true") => return Ok(Script::Literal(Value::Bool(true))),
            (_, "false") => return Ok(Script::Literal(Value::Bool(false))),
            (_, "null") => return Ok(Script::Literal(Value::Null)),
            (_, "undefined" | "typeof" | "new" | "function" | "this" | "void" | "delete" | "await") => {
                return Err(format!("is not translated: it uses `{word}`"));
            }
            (Language::Symfony, "is_granted") => return self.has_role(),
            _ => {}
        }
        let mut fields = vec![word.to_owned()];
        while self.take(".") {
            let Token::Word(field) = self.next()? else {
                return Err("is not translated: a field has no name".to_owned());
            };
            fields.push(field);
        }
        if matches!(self.tokens.get(self.at), Some(Token::Mark("(" | "["))) {
            return Err(format!("is not translated: it calls or indexes `{}`", fields.join(".")));
        }
        match (self.language, fields[0].as_str()) {
            (Language::Ecma, "_event") if fields.get(1).is_some_and(|field| field == "data") => {
                Ok(Script::Path { of_event: true, fields: fields.split_off(2) })
            }
            (Language::Ecma, name) if name.starts_with('_') => Err(format!("is not translated: it uses `{name}`")),
            (Language::Symfony, "subject") if fields.len() > 1 => {
                Ok(Script::Path { of_event: false, fields: fields.split_off(1) })
            }
            (Language::Symfony, name) => Err(format!("is not translated: it uses `{name}`")),
            _ => Ok(Script::Path { of_event: false, fields }),
        }
    }

    /// `is_granted('ROLE')`.
    fn has_role(&mut self) -> Result<Script, String> {
        let open = self.take("(");
        match self.next()? {
            Token::Text(role) if open && self.take(")") => Ok(Script::HasRole(role)),
            _ => Err("is not translated: `is_granted` is understood with one role only".to_owned()),
        }
    }
}

impl Script {
    fn is_comparison(&self) -> bool {
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
            "\"\\u0041\"",
        ] {
            assert!(Script::parse(Language::Ecma, text).is_err(), "{text}");
        }
        for text in ["subject", "user.isAdmin()", "subject.getX()", "is_granted(x)", "is_granted('A', subject)"] {
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
