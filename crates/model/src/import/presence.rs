//! What a condition of ECMAScript comes to where fields are absent, or of another kind than those that they are compared
//! with: CEL refuses to tell, ECMAScript does not.

use std::collections::BTreeMap;

use serde_json::Value;

use super::script::{Operator, Script};

/// The variables that a machine declares, with what they begin with; none: nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct Declared(pub(super) BTreeMap<String, Option<Value>>);

/// What is translated, but may come to something else here.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Doubt {
    /// A field of the other kind is compared with this literal by `==`.
    Surely(String),
    /// The same of a field of which the kind is not known.
    Perhaps(String),
}

impl Declared {
    /// The condition with what it comes to where fields are absent: it does not hold where ECMAScript would fail, and what
    /// is not there equals nothing.
    pub(super) fn condition(&self, script: &Script) -> Script {
        self.holds(script, true)
    }

    /// `is_wanted`: whether the whole holds if this part does, and not if it does not.
    fn holds(&self, script: &Script, is_wanted: bool) -> Script {
        match script {
            Script::Binary(operator @ (Operator::And | Operator::Or), left, right) => {
                let [left, right] = [left, right].map(|part| Box::new(self.holds(part, is_wanted)));
                Script::Binary(*operator, left, right)
            }
            Script::Not(inner) => Script::Not(Box::new(self.holds(inner, !is_wanted))),
            _ => self.part(script, is_wanted),
        }
    }

    /// A part without `&&`, `||` and `!`.
    fn part(&self, script: &Script, is_wanted: bool) -> Script {
        let (mut failing, mut undefined) = (Vec::new(), Vec::new());
        self.needed(script, &mut failing, &mut undefined);
        let holds_without = match script {
            Script::Binary(Operator::Unlike, left, right) => !is_null(left) && !is_null(right),
            Script::Binary(Operator::Unequal, ..) => true,
            Script::Binary(Operator::Like, left, right) => is_null(left) || is_null(right),
            _ => false,
        };
        let with_undefined = guarded(undefined, script.clone(), !holds_without);
        guarded(failing, with_undefined, is_wanted)
    }

    /// The fields that a part reads: those without which ECMAScript would fail, and those that would be undefined.
    fn needed(&self, script: &Script, failing: &mut Vec<Script>, undefined: &mut Vec<Script>) {
        let Script::Path { of_event, fields } = script else {
            // What is undefined has no length.
            let is_size = matches!(script, Script::Size(_));
            let mut own = Vec::new();
            script.inside().into_iter().for_each(|inner| self.needed(inner, failing, &mut own));
            let list = if is_size { failing } else { undefined };
            own.into_iter().for_each(|has| add(list, has));
            return;
        };
        for length in 1..=fields.len() {
            let has = || Script::Has { of_event: *of_event, fields: fields[..length].to_vec() };
            let is_last = length == fields.len();
            let value = self.0.get(&fields[0]);
            match (length, of_event, value) {
                // Whoever starts the run gives it.
                (1, false, Some(Some(_))) => {}
                (1, false, None) => add(failing, has()),
                _ if is_last => add(undefined, has()),
                _ => add(failing, has()),
            }
        }
    }

    /// Where `==` would convert what CEL does not.
    pub(super) fn doubts(&self, script: &Script) -> Vec<Doubt> {
        let mut doubts: Vec<Doubt> = script.inside().into_iter().flat_map(|inner| self.doubts(inner)).collect();
        if let Script::Binary(Operator::Like | Operator::Unlike, left, right) = script {
            doubts.extend(self.conversion(left, right).or_else(|| self.conversion(right, left)));
        }
        doubts
    }

    fn conversion(&self, read: &Script, literal: &Script) -> Option<Doubt> {
        let (Script::Path { of_event, fields }, Script::Literal(literal)) = (read, literal) else { return None };
        let own = match (fields.as_slice(), of_event) {
            ([field], false) => self.0.get(field).and_then(Option::as_ref),
            _ => None,
        };
        let shown = || format!("{} == {literal}", read.cel());
        let is_numeric = |text: &str| text.trim().is_empty() || text.trim().parse::<f64>().is_ok();
        match (literal, own) {
            (Value::String(text), Some(Value::Number(_) | Value::Bool(_))) if is_numeric(text) => {
                Some(Doubt::Surely(shown()))
            }
            (Value::Number(_), Some(Value::String(_) | Value::Bool(_))) => Some(Doubt::Surely(shown())),
            (Value::String(text), None) if is_numeric(text) => Some(Doubt::Perhaps(shown())),
            _ => None,
        }
    }
}

fn is_null(script: &Script) -> bool {
    matches!(script, Script::Literal(Value::Null))
}

fn add(list: &mut Vec<Script>, has: Script) {
    if !list.contains(&has) {
        list.push(has);
    }
}

/// `script`, where all of `needed` are there; else `!is_and`.
fn guarded(needed: Vec<Script>, script: Script, is_and: bool) -> Script {
    needed.into_iter().rev().fold(script, |script, has| {
        let (has, operator) = if is_and { (has, Operator::And) } else { (Script::Not(Box::new(has)), Operator::Or) };
        Script::Binary(operator, Box::new(has), Box::new(script))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::script::Language;
    use super::*;

    fn declared() -> Declared {
        let values = [("n", Some(json!(1))), ("s", Some(json!("x"))), ("o", Some(json!({}))), ("u", None)];
        Declared(values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    fn parsed(text: &str) -> Script {
        Script::parse(Language::Ecma, text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn what_is_absent_is_what_ecmascript_makes_of_it() {
        for (text, cel) in [
            ("n > 1", "data.n > 1"),
            ("_event.data.vip == true", "has(event.vip) && event.vip == true"),
            ("_event.data.vip != 'x'", "!has(event.vip) || event.vip != \"x\""),
            ("_event.data.vip == null", "!has(event.vip) || event.vip == null"),
            ("_event.data.vip === null", "has(event.vip) && event.vip == null"),
            ("!_event.data.vip", "!(has(event.vip) && event.vip)"),
            ("!_event.data.vip && n == 1", "!(has(event.vip) && event.vip) && data.n == 1"),
            ("u < 3 || s == 'y'", "has(data.u) && data.u < 3 || data.s == \"y\""),
            // Not declared at all: the condition fails.
            ("x != 1", "has(data.x) && data.x != 1"),
            ("!(x == 1)", "!(!has(data.x) || data.x == 1)"),
            ("o.a.b + n > 1", "has(data.o.a) && has(data.o.a.b) && data.o.a.b + data.n > 1"),
            ("o.list.length > 0", "has(data.o.list) && size(data.o.list) > 0"),
            ("_event.data.a.b", "has(event.a) && has(event.a.b) && event.a.b"),
        ] {
            assert_eq!(declared().condition(&parsed(text)).cel(), cel, "{text}");
        }
    }

    #[test]
    fn what_would_be_converted_is_told() {
        let (surely, perhaps) =
            (|text: &str| vec![Doubt::Surely(text.into())], |text: &str| vec![Doubt::Perhaps(text.into())]);
        for (text, doubts) in [
            ("n == '5'", surely("data.n == \"5\"")),
            ("'' != n", surely("data.n == \"\"")),
            ("s == 5 && true", surely("data.s == 5")),
            ("x == '5'", perhaps("data.x == \"5\"")),
            ("!(_event.data.x == ' 5 ')", perhaps("event.x == \" 5 \"")),
            ("s == '5' || x == 'five' || n == 5 || x == 5", vec![]),
            ("n === '5'", vec![]),
        ] {
            assert_eq!(declared().doubts(&parsed(text)), doubts, "{text}");
        }
    }
}
