//! The texts of [`Script`]s: what of ECMAScript and of Symfony's expression language means the same in CEL.

use serde_json::Value;

use super::script::{Language, Operator, Script};

/// Operands inside one another: the parser is recursive.
const DEPTH_MAX: usize = 48;

/// Reads `text`, which is no longer than it may be.
pub(super) fn parse(language: Language, text: &str) -> Result<Script, String> {
    let mut parser = Parser { language, tokens: tokens(text)?, at: 0, depth: 0 };
    let script = parser.binary(1)?;
    match parser.tokens.get(parser.at) {
        None => Ok(script),
        Some(token) => Err(format!("is not translated: {} is not understood here", token.shown())),
    }
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

/// Words that CEL keeps for itself.
const RESERVED: &[&str] = &[
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "namespace",
    "null",
    "package",
    "return",
    "true",
    "var",
    "void",
    "while",
];

fn is_name_of_cel(name: &str) -> bool {
    name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !RESERVED.contains(&name)
}

/// The field, or how long it is.
fn with_length(of_event: bool, mut fields: Vec<String>) -> Script {
    let asks_length = fields.len() > 1 && fields.last().is_some_and(|last| last == "length");
    if asks_length {
        fields.pop();
    }
    let path = Script::Path { of_event, fields };
    if asks_length { Script::Size(Box::new(path)) } else { path }
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
            Token::Mark("==") => Operator::Like,
            Token::Mark("!=") => Operator::Unlike,
            Token::Mark("===") => Operator::Equal,
            Token::Mark("!==") => Operator::Unequal,
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
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err("is not translated: it is nested too deeply".to_owned());
        }
        let script = if self.take("!") || self.language == Language::Symfony && self.take_word("not") {
            Script::Not(Box::new(self.unary()?))
        } else if self.take("-") {
            self.unary()?.negative()
        } else {
            self.primary()?
        };
        self.depth -= 1;
        Ok(script)
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
        if let Some(name) = fields.iter().find(|name| !is_name_of_cel(name)) {
            return Err(format!("is not translated: `{name}` cannot be a name in CEL"));
        }
        match (self.language, fields[0].as_str()) {
            (Language::Ecma, "_event") if fields.get(1).is_some_and(|field| field == "data") => {
                Ok(with_length(true, fields.split_off(2)))
            }
            (Language::Ecma, name) if name.starts_with('_') => Err(format!("is not translated: it uses `{name}`")),
            (Language::Symfony, "subject") if fields.len() > 1 => {
                Ok(Script::Path { of_event: false, fields: fields.split_off(1) })
            }
            (Language::Symfony, name) => Err(format!("is not translated: it uses `{name}`")),
            _ => Ok(with_length(false, fields)),
        }
    }

    /// `is_granted('ROLE')`; of other attributes voters decide, and those of `IS_...` ask how someone has signed in.
    fn has_role(&mut self) -> Result<Script, String> {
        let open = self.take("(");
        match self.next()? {
            Token::Text(role) if open && self.take(")") => {
                if role.starts_with("ROLE_") {
                    return Ok(Script::HasRole(role));
                }
                Err(format!(
                    "is not translated: {role:?} is no role (`ROLE_...`), so it is not known who is granted it"
                ))
            }
            _ => Err("is not translated: `is_granted` is understood with one role only".to_owned()),
        }
    }
}
