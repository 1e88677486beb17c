//! What an expression yields, as far as its text and the schema of the data tell, and what can never work in it.
//!
//! A type here is the set of kinds that a value may be of: where nothing is known it may be of any, and nothing is said.

use std::ops::BitOr;
use std::sync::Arc;

use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SelectExpr, operators};
use cel::parser::PrattParser;

use super::bounds::find_word_from;
use super::kinds::{Fields, Kinds, Others, Type};
use super::{Fault, guarded};
use crate::definition::suggestion::hint;

/// What an expression is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wanted<'a> {
    /// A guard's truth.
    Truth,
    /// The value of a field of the data.
    Field(&'a str),
}

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// What can never work.
    pub(crate) faults: Vec<Fault>,
    /// What works, but hardly as it is meant.
    pub(crate) doubts: Vec<Fault>,
}

/// Looks through the expression `text`, which compiles, on data of type `data`.
pub(crate) fn check(text: &str, data: &Type, wanted: Wanted<'_>) -> Findings {
    let Ok(Ok(tree)) = guarded(|| PrattParser::default().parse(text)) else { return Findings::default() };
    let mut walk = Walk { text, data, locals: Vec::new(), cursor: 0, found: Findings::default() };
    let (found, _) = walk.infer(&tree);
    match wanted {
        Wanted::Truth => {
            if !found.kinds.meets(Kinds::BOOL) {
                let message = format!("a guard yields true or false, and this yields {}", found.kinds.name());
                walk.fault(0, message, "write a condition, for example `data.amount > 0`");
            }
        }
        Wanted::Field(name) => walk.check_field(name, &found),
    }
    walk.found
}

struct Walk<'t> {
    text: &'t str,
    data: &'t Type,
    /// Variables of the loops around.
    locals: Vec<(String, Type)>,
    /// How far the text is passed: its names are met in its order.
    cursor: usize,
    found: Findings,
}

/// A type, and where the expression of that type begins.
type Found = (Type, usize);

impl Walk<'_> {
    fn fault(&mut self, at: usize, message: impl Into<String>, remedy: impl Into<String>) {
        self.found.faults.push(Fault::new(at, message, remedy));
    }

    fn doubt(&mut self, at: usize, message: impl Into<String>, remedy: impl Into<String>) {
        self.found.doubts.push(Fault::new(at, message, remedy));
    }

    /// Where the next `name` stands.
    fn pass(&mut self, name: &str) -> usize {
        match find_word_from(self.text, name, self.cursor) {
            Some(at) => {
                self.cursor = at + name.len();
                at
            }
            None => find_word_from(self.text, name, 0).unwrap_or_default(),
        }
    }

    fn check_field(&mut self, name: &str, found: &Type) {
        let Some(fields) = self.data.fields.as_deref() else { return };
        match (fields.known.get(name), fields.others) {
            (Some(wanted), _) if !wanted.kinds.meets(found.kinds.kept()) => {
                let (wanted, found) = (wanted.kinds.name(), found.kinds.name());
                let message = format!("the schema has {wanted} in the field {name:?}, and this yields {found}");
                self.fault(0, message, "correct the expression, or the schema");
            }
            (Some(_), _) | (None, Others::Any) => {}
            (None, others) => self.unknown_field(0, name, fields, others),
        }
    }

    fn unknown_field(&mut self, at: usize, name: &str, fields: &Fields, others: Others) {
        let known: Vec<&str> = fields.known.keys().map(String::as_str).collect();
        let message = format!("the schema has no field {name:?} here{}", hint(name, known.iter().copied()));
        let remedy = match known.as_slice() {
            [] => "add it to the schema".to_owned(),
            known => format!("write one of {}, or add it to the schema", known.join(", ")),
        };
        match others {
            Others::None => self.fault(at, message, remedy),
            Others::Unlisted => self.doubt(at, message, remedy),
            Others::Any => {}
        }
    }

    fn infer(&mut self, node: &IdedExpr) -> Found {
        match &node.expr {
            Expr::Literal(literal) => (Type::of(kind(literal)), self.cursor),
            Expr::Ident(name) => self.name(name),
            Expr::Select(select) => self.select(select),
            Expr::Call(call) => self.call(call),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::List(list) => {
                let at = self.cursor;
                let item = list.elements.iter().map(|element| self.infer(element).0).reduce(Type::or);
                (Type { item: item.map(Arc::new), ..Type::of(Kinds::LIST) }, at)
            }
            Expr::Map(map) => {
                let at = self.cursor;
                for entry in &map.entries {
                    if let EntryExpr::MapEntry(entry) = &entry.expr {
                        self.infer(&entry.key);
                        self.infer(&entry.value);
                    }
                }
                (Type::of(Kinds::MAP), at)
            }
            Expr::Struct(_) | Expr::Unspecified => (Type::ANY, self.cursor),
        }
    }

    fn name(&mut self, name: &str) -> Found {
        let name = name.strip_prefix('.').unwrap_or(name);
        if let Some((_, local)) = self.locals.iter().rev().find(|(local, _)| local == name) {
            let local = local.clone();
            let at = if name.starts_with('@') { self.cursor } else { self.pass(name) };
            return (local, at);
        }
        let found = match name {
            // Whatever is in it, it is a map.
            "data" if self.data.is_any() => Type::of(Kinds::MAP),
            "data" => self.data.clone(),
            "event" => Type::of(Kinds::MAP),
            "actor" => Type::map_of(&[("id", Kinds::TEXT), ("roles", Kinds::LIST)]),
            "instance" => Type::map_of(&[
                ("id", Kinds::TEXT),
                ("state", Kinds::TEXT),
                ("version", Kinds::NUMBER),
                ("started_by", Kinds::TEXT),
                ("started_at", Kinds::TIME),
            ]),
            "now" => Type::of(Kinds::TIME),
            name if name.starts_with('@') => return (Type::ANY, self.cursor),
            _ => Type::of(Kinds::TYPE),
        };
        (found, self.pass(name))
    }

    fn select(&mut self, select: &SelectExpr) -> Found {
        let (operand, begin) = self.infer(&select.operand);
        let at = self.pass(&select.field);
        let name = &select.field;
        if !operand.kinds.meets(Kinds::MAP) {
            let message = format!("{} has no field {name:?}", operand.kinds.name());
            self.fault(at, message, "select fields of a map");
            return (Type::ANY, begin);
        }
        let fields = operand.fields.clone();
        let known = fields.as_ref().and_then(|fields| fields.known.get(name).cloned());
        if let (Some(fields), None) = (&fields, &known) {
            if select.test && fields.others == Others::None {
                let message = format!("the schema has no field {name:?} here: it is never there");
                self.doubt(at, message, "correct the name, or add it to the schema");
            } else if !select.test {
                self.unknown_field(at, name, fields, fields.others);
            }
        }
        let found = if select.test { Type::of(Kinds::BOOL) } else { known.unwrap_or(Type::ANY) };
        (found, begin)
    }

    fn comprehension(&mut self, c: &ComprehensionExpr) -> Found {
        let (range, at) = self.infer(&c.iter_range);
        let item = match (range.kinds.meets(Kinds::LIST), range.kinds.meets(Kinds::MAP)) {
            (true, false) => range.item.as_deref().cloned().unwrap_or(Type::ANY),
            (false, true) => Type::of(Kinds::TEXT),
            (true, true) => Type::ANY,
            (false, false) => {
                let message = format!("{} cannot be looped over", range.kinds.name());
                self.fault(at, message, "loop over a list or a map");
                Type::ANY
            }
        };
        let (gathered, _) = self.infer(&c.accu_init);
        // Members are added as it goes.
        let gathered = Type::of(gathered.kinds);
        self.pass(&c.iter_var);
        self.locals.push((c.iter_var.clone(), item));
        self.locals.push((c.accu_var.clone(), gathered));
        self.infer(&c.loop_step);
        let (found, _) = self.infer(&c.result);
        self.locals.truncate(self.locals.len() - 2);
        (found, at)
    }

    fn call(&mut self, call: &CallExpr) -> Found {
        let target = call.target.as_deref().map(|target| self.infer(target));
        let before = self.cursor;
        let args: Vec<Found> = call.args.iter().map(|arg| self.infer(arg)).collect();
        let at = target.as_ref().or(args.first()).map_or(before, |(_, at)| *at);
        let found = match (call.func_name.as_str(), target, args.as_slice()) {
            (operators::CONDITIONAL, _, [condition, yes, no]) => {
                self.want(condition, Kinds::BOOL, "a condition");
                yes.0.clone().or(no.0.clone())
            }
            (operators::LOGICAL_AND | operators::LOGICAL_OR, _, operands) => {
                for operand in operands {
                    self.want(operand, Kinds::BOOL, "an operand of `&&` and `||`");
                }
                Type::of(Kinds::BOOL)
            }
            (operators::LOGICAL_NOT, _, [operand]) => {
                self.want(operand, Kinds::BOOL, "an operand of `!`");
                Type::of(Kinds::BOOL)
            }
            (operators::EQUALS | operators::NOT_EQUALS, _, [left, right]) => {
                self.equality(left, right);
                Type::of(Kinds::BOOL)
            }
            (
                operators::LESS | operators::LESS_EQUALS | operators::GREATER | operators::GREATER_EQUALS,
                _,
                [left, right],
            ) => {
                self.comparison(left, right);
                Type::of(Kinds::BOOL)
            }
            (operators::IN, _, [_, right]) => {
                self.want(right, Kinds::LIST | Kinds::MAP, "what stands behind `in`");
                Type::of(Kinds::BOOL)
            }
            (operators::INDEX, _, [collection, key]) => self.index(call, collection, key),
            (operators::NEGATE, _, [operand]) => {
                self.want(operand, Kinds::NUMBER, "an operand of `-`");
                Type::of(Kinds::NUMBER)
            }
            (name, None, [left, right]) if sign(name).is_some() => self.arithmetic(name, left, right),
            ("contains" | "startsWith" | "endsWith" | "matches", target, args) => {
                if let Some(text) = target.as_ref().or(args.first()) {
                    self.want(text, Kinds::TEXT, &format!("what `{}` looks at", call.func_name));
                }
                Type::of(Kinds::BOOL)
            }
            (name, Some(target), _) if name.starts_with("get") => {
                self.want(&target, Kinds::TIME | Kinds::DURATION, &format!("what `{name}` looks at"));
                Type::of(Kinds::NUMBER)
            }
            ("size", target, args) => {
                if let Some(sized) = target.as_ref().or(args.first()) {
                    let kinds = Kinds::TEXT | Kinds::LIST | Kinds::MAP | Kinds::BYTES;
                    self.want(sized, kinds, "what `size` looks at");
                }
                Type::of(Kinds::NUMBER)
            }
            (name, ..) => Type::of(yielded(name)),
        };
        (found, at)
    }

    /// Says that an operand can never be of the kinds that are needed.
    fn want(&mut self, (found, at): &Found, wanted: Kinds, what: &str) {
        if !found.kinds.meets(wanted) {
            let message = format!("{what} is {}, and this is {}", wanted.name(), found.kinds.name());
            self.fault(*at, message, "correct the expression");
        }
    }

    fn equality(&mut self, (left, at): &Found, (right, _): &Found) {
        // Whether something is null may be asked of anything.
        if !left.kinds.meets(right.kinds) && left.kinds != Kinds::NULL && right.kinds != Kinds::NULL {
            let message = format!("{} never equals {}", left.kinds.name(), right.kinds.name());
            self.doubt(*at, message, "compare values of one kind");
        }
    }

    fn comparison(&mut self, (left, at): &Found, (right, _): &Found) {
        if !left.kinds.meets(right.kinds) {
            let message = format!("{} cannot be compared with {}", left.kinds.name(), right.kinds.name());
            let is_time = left.kinds == Kinds::TIME || right.kinds == Kinds::TIME;
            let remedy = match is_time {
                true => "compare values of one kind; `timestamp(text)` reads a time from a text",
                false => "compare values of one kind; `double(text)` reads a number from a text",
            };
            self.fault(*at, message, remedy);
        }
    }

    fn index(&mut self, call: &CallExpr, (collection, at): &Found, (key, _): &Found) -> Type {
        self.want(&(collection.clone(), *at), Kinds::LIST | Kinds::MAP, "what is indexed");
        let name = match call.args.get(1).map(|arg| &arg.expr) {
            Some(Expr::Literal(LiteralValue::String(name))) => Some(name.inner()),
            _ => None,
        };
        let fields = collection.fields.as_deref();
        if let (Some(name), Some(fields), false) = (name, fields, collection.kinds.meets(Kinds::LIST)) {
            let known = fields.known.get(name).cloned();
            if known.is_none() {
                self.unknown_field(*at, name, fields, fields.others);
            }
            return known.unwrap_or(Type::ANY);
        }
        match &collection.item {
            Some(item) if !collection.kinds.meets(Kinds::MAP) && key.kinds.meets(Kinds::NUMBER) => (**item).clone(),
            _ => Type::ANY,
        }
    }

    fn arithmetic(&mut self, name: &str, left: &Found, right: &Found) -> Type {
        let yields = |(a, b): (Kinds, Kinds)| -> Option<Kinds> {
            let both = |kind: Kinds| a == kind && b == kind;
            let is = |first: Kinds, second: Kinds| a == first && b == second;
            match name {
                _ if both(Kinds::NUMBER) => Some(Kinds::NUMBER),
                operators::ADD if both(Kinds::TEXT) || both(Kinds::LIST) || both(Kinds::BYTES) => Some(a),
                operators::ADD if is(Kinds::TIME, Kinds::DURATION) || is(Kinds::DURATION, Kinds::TIME) => {
                    Some(Kinds::TIME)
                }
                operators::ADD | operators::SUBSTRACT if both(Kinds::DURATION) => Some(Kinds::DURATION),
                operators::SUBSTRACT if is(Kinds::TIME, Kinds::DURATION) => Some(Kinds::TIME),
                operators::SUBSTRACT if both(Kinds::TIME) => Some(Kinds::DURATION),
                _ => None,
            }
        };
        let single = |kinds: Kinds| Kinds::NAMES.iter().map(|(kind, _)| *kind).filter(move |kind| kinds.meets(*kind));
        let pairs = single(left.0.kinds).flat_map(|a| single(right.0.kinds).map(move |b| (a, b)));
        let found = pairs.filter_map(yields).fold(Kinds::NONE, BitOr::bitor);
        if found == Kinds::NONE {
            let (sign, left_name, right_name) =
                (sign(name).unwrap_or_default(), left.0.kinds.name(), right.0.kinds.name());
            let message = format!("there is no `{sign}` of {left_name} and {right_name}");
            self.fault(left.1, message, "`string(value)` makes a text, `double(text)` a number");
            return Type::ANY;
        }
        let of_any = left.0.is_any() && right.0.is_any();
        if of_any { Type::ANY } else { Type::of(found) }
    }
}

/// How an arithmetical operator is written.
fn sign(name: &str) -> Option<&'static str> {
    Some(match name {
        operators::ADD => "+",
        operators::SUBSTRACT => "-",
        operators::MULTIPLY => "*",
        operators::DIVIDE => "/",
        operators::MODULO => "%",
        _ => return None,
    })
}

fn yielded(function: &str) -> Kinds {
    match function {
        "string" => Kinds::TEXT,
        "int" | "uint" | "double" => Kinds::NUMBER,
        "bool" | "@not_strictly_false" => Kinds::BOOL,
        "bytes" => Kinds::BYTES,
        "timestamp" => Kinds::TIME,
        "duration" => Kinds::DURATION,
        "type" => Kinds::TYPE,
        _ => Kinds::ANY,
    }
}

fn kind(literal: &LiteralValue) -> Kinds {
    match literal {
        LiteralValue::String(_) => Kinds::TEXT,
        LiteralValue::Boolean(_) => Kinds::BOOL,
        LiteralValue::Int(_) | LiteralValue::UInt(_) | LiteralValue::Double(_) => Kinds::NUMBER,
        LiteralValue::Bytes(_) => Kinds::BYTES,
        LiteralValue::Null => Kinds::NULL,
    }
}
