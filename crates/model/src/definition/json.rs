//! JSON text to nodes. The syntax is judged by `serde_json`; the scanner below only adds the places, so it may rely on
//! what it reads being well formed.

use std::collections::HashSet;

use super::Problem;
use super::fields::join;
use super::lines::Lines;
use super::node::{Field, Node, Place, Value};
use crate::limits::PROBLEMS_MAX;

/// Reads JSON text.
pub(crate) fn read(text: &str) -> Result<Node, Vec<Problem>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if let Err(error) = serde_json::from_str::<serde_json::Value>(text) {
        return Err(vec![syntax_problem(text, &error)]);
    }
    let mut scanner = Scanner { text, lines: Lines::new(text), at: 0, problems: Vec::new() };
    let node = scanner.node(&Path::Root);
    if scanner.problems.is_empty() { Ok(node) } else { Err(scanner.problems) }
}

fn syntax_problem(text: &str, error: &serde_json::Error) -> Problem {
    // serde_json counts columns in bytes.
    let line = text.split('\n').nth(error.line().saturating_sub(1)).unwrap_or_default();
    let column = line.char_indices().take_while(|(at, _)| at + 1 < error.column()).count() + 1;
    let full = error.to_string();
    let message = full.rsplit_once(" at line ").map_or(full.as_str(), |(message, _)| message).to_owned();
    let remedy = match error.classify() {
        serde_json::error::Category::Eof => "close every bracket, brace and quote that was opened",
        _ if message.contains("trailing comma") => "remove the comma before the closing bracket",
        _ if message.contains("recursion limit") => "nest less deeply",
        _ if message.contains("key must be a string") => "put every field's name in double quotes",
        _ => "write JSON here: names and texts in double quotes, a comma between fields, no comments",
    };
    Problem {
        line: error.line() as u64,
        column: column as u64,
        path: String::new(),
        message: format!("not JSON: {message}"),
        remedy: remedy.to_owned(),
    }
}

/// Walks JSON that is known to be well formed; its depth is bounded by `serde_json`'s recursion limit of 128.
struct Scanner<'t> {
    text: &'t str,
    lines: Lines<'t>,
    at: usize,
    problems: Vec<Problem>,
}

/// The way to a part; written out only where something is wrong with it, since names may be long.
enum Path<'p> {
    Root,
    Field(&'p Path<'p>, &'p str),
    Item(&'p Path<'p>, usize),
}

impl Path<'_> {
    fn shown(&self) -> String {
        match self {
            Self::Root => String::new(),
            Self::Field(parent, name) => join(&parent.shown(), name),
            Self::Item(parent, at) => format!("{}[{at}]", parent.shown()),
        }
    }
}

impl Scanner<'_> {
    fn peek(&self) -> u8 {
        self.text.as_bytes().get(self.at).copied().unwrap_or_default()
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), b' ' | b'\t' | b'\r' | b'\n') {
            self.at += 1;
        }
    }

    /// Skips white space, then the byte if it is there.
    fn take(&mut self, byte: u8) -> bool {
        self.skip_space();
        let found = self.peek() == byte;
        self.at += usize::from(found);
        found
    }

    fn place(&self) -> Place {
        self.lines.place(self.at)
    }

    fn node(&mut self, path: &Path<'_>) -> Node {
        self.skip_space();
        let place = self.place();
        let value = match self.peek() {
            b'{' => self.map(path),
            b'[' => self.list(path),
            b'"' => Value::Text(self.text_token()),
            _ => self.plain(),
        };
        Node { place, value }
    }

    fn map(&mut self, path: &Path<'_>) -> Value {
        self.at += 1;
        let mut fields: Vec<Field> = Vec::new();
        let mut seen = HashSet::new();
        while !self.take(b'}') && self.at < self.text.len() {
            self.skip_space();
            let place = self.place();
            let name = self.text_token();
            self.take(b':');
            let path = Path::Field(path, &name);
            let node = self.node(&path);
            self.take(b',');
            if !seen.insert(name.clone()) && self.problems.len() < PROBLEMS_MAX {
                self.problems.push(duplicate(place, path.shown(), &name));
            }
            fields.push(Field { name, place, node });
        }
        Value::Map(fields)
    }

    fn list(&mut self, path: &Path<'_>) -> Value {
        self.at += 1;
        let mut items = Vec::new();
        while !self.take(b']') && self.at < self.text.len() {
            items.push(self.node(&Path::Item(path, items.len())));
            self.take(b',');
        }
        Value::List(items)
    }

    fn text_token(&mut self) -> String {
        let start = self.at;
        self.at += 1;
        while self.peek() != b'"' && self.at < self.text.len() {
            self.at += 1 + usize::from(self.peek() == b'\\');
        }
        self.at = (self.at + 1).min(self.text.len());
        serde_json::from_str(&self.text[start..self.at]).unwrap_or_default()
    }

    fn plain(&mut self) -> Value {
        let rest = &self.text[self.at..];
        let end = rest.find([',', ']', '}', ' ', '\t', '\r', '\n']).unwrap_or(rest.len()).max(1);
        self.at += end;
        match &rest[..end.min(rest.len())] {
            "null" => Value::Null,
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            number => number.parse().map_or_else(|_| Value::Float(number.parse().unwrap_or(f64::NAN)), Value::Int),
        }
    }
}

/// A field that was written twice.
pub(super) fn duplicate(place: Place, path: String, name: &str) -> Problem {
    Problem {
        line: place.line,
        column: place.column,
        path,
        message: format!("the field {name:?} is written twice"),
        remedy: "keep one of them".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field<'n>(node: &'n Node, name: &str) -> &'n Field {
        let Value::Map(fields) = &node.value else { panic!("{node:?} is no map") };
        fields.iter().find(|f| f.name == name).unwrap()
    }

    #[test]
    fn every_part_knows_its_place() {
        let node =
            read("{\"a\": [1, -2.5, \"x\\u00e9\\ud83d\\ude00\\n\"],\r\n\t\"ü\" : {\"b\":null , \"c\": true}}").unwrap();
        let a = field(&node, "a");
        assert_eq!(a.place, Place { line: 1, column: 2 });
        let Value::List(items) = &a.node.value else { panic!() };
        assert_eq!(items[0], Node { place: Place { line: 1, column: 8 }, value: Value::Int(1) });
        assert_eq!(items[1].value, Value::Float(-2.5));
        assert_eq!(items[2].value, Value::Text("xé😀\n".into()));
        let u = field(&node, "ü");
        assert_eq!(u.place, Place { line: 2, column: 2 });
        assert_eq!(field(&u.node, "c").node, Node { place: Place { line: 2, column: 25 }, value: Value::Bool(true) });
        assert_eq!(field(&u.node, "b").node.value, Value::Null);
    }

    /// However long its lines are, and the names on the way to its parts.
    #[test]
    fn a_megabyte_is_read_part_by_part() {
        const PARTS: usize = 200_000;
        let text = format!("{{\"{}\": [{}]}}", "x".repeat(500_000), vec!["1"; PARTS].join(","));
        let mut scanner = Scanner { text: &text, lines: Lines::new(&text), at: 0, problems: Vec::new() };
        scanner.node(&Path::Root);
        assert!(scanner.lines.looked() < PARTS * 512, "{} bytes", scanner.lines.looked());
        let twice = format!("{{{}\"z\": 1}}", "\"a\": 1,".repeat(1_000));
        assert_eq!(read(&twice).unwrap_err().len(), PROBLEMS_MAX);
    }

    #[test]
    fn agrees_with_serde_json_on_odd_but_good_texts() {
        for text in ["0", " [ ] ", "{}", "[[[[]]]]", "\"\\\\\\\"\"", "[9223372036854775807,9223372036854775808,1e3]"] {
            assert!(read(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn says_where_the_syntax_breaks() {
        for (text, line, column) in [
            ("{\"ü\": 1,}", 1, 9),
            ("{\n  \"a\" 1}", 2, 7),
            ("{\"a\": 1", 1, 7),
            ("", 1, 1),
            ("{} x", 1, 4),
            ("{'a': 1}", 1, 2),
            ("{\"a\": \"\\ud800\"}", 1, 14),
        ] {
            let problems = read(text).unwrap_err();
            assert_eq!((problems[0].line, problems[0].column), (line, column), "{text}: {}", problems[0]);
        }
        let twice = read("{\"a\": {\"b\": 1,\n\"b\": 2}}").unwrap_err();
        assert_eq!(twice[0].to_string(), "2:1: a.b: the field \"b\" is written twice (keep one of them)");
        assert!(read(&("[".repeat(4000) + &"]".repeat(4000))).is_err());
    }
}
