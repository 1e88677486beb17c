//! Rewriting an expression so that whatever may loop, copy or grow pays for it: see [`super::cost`].

use cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators};
use regex::Regex;

use super::Root;
use super::analysis::{compile_pattern, literal_text};
use super::cost::{ADD, COPY, KEY, LENGTH, MATCH, RANGE, SCAN, WEIGH};

/// The variable that the n-th pattern is bound to; no text can spell it.
pub(super) fn pattern_name(n: usize) -> String {
    format!("@pattern{n}")
}

/// Wraps what has a price in the functions of [`super::cost`], and takes the patterns of `matches` out, compiled; gives
/// the number of parts.
pub(super) fn pay(node: &mut IdedExpr, patterns: &mut Vec<Regex>) -> u64 {
    let parts = match &mut node.expr {
        Expr::Call(call) => {
            let parts =
                call.target.as_deref_mut().into_iter().chain(&mut call.args).map(|arg| pay(arg, patterns)).sum();
            pay_for_call(call, patterns);
            parts
        }
        Expr::Comprehension(comprehension) => {
            let c = comprehension.as_mut();
            let body = pay(&mut c.loop_cond, patterns) + pay(&mut c.loop_step, patterns);
            let rest = [&mut c.iter_range, &mut c.accu_init, &mut c.result].map(|part| pay(part, patterns));
            let parts = Expr::Literal(LiteralValue::Int(i64::try_from(body).unwrap_or(i64::MAX).into()));
            wrap(&mut c.iter_range, RANGE, Some(parts));
            body + rest.iter().sum::<u64>()
        }
        Expr::Select(select) => pay(&mut select.operand, patterns),
        Expr::List(list) => list.elements.iter_mut().map(|element| pay_for_member(element, patterns)).sum(),
        Expr::Map(map) => map
            .entries
            .iter_mut()
            .map(|entry| match &mut entry.expr {
                EntryExpr::MapEntry(entry) => {
                    pay_for_key(&mut entry.key, patterns) + pay_for_member(&mut entry.value, patterns)
                }
                EntryExpr::StructField(field) => pay(&mut field.value, patterns),
            })
            .sum(),
        Expr::Ident(_) | Expr::Literal(_) | Expr::Struct(_) | Expr::Unspecified => 0,
    };
    parts + 1
}

fn pay_for_member(member: &mut IdedExpr, patterns: &mut Vec<Regex>) -> u64 {
    let parts = pay(member, patterns);
    // Whatever else there is makes a value of its own, which is moved.
    let is_copied = match &member.expr {
        Expr::Ident(_) | Expr::Select(_) => true,
        Expr::Call(call) => matches!(call.func_name.as_str(), operators::CONDITIONAL | operators::INDEX | "dyn"),
        _ => false,
    };
    if is_copied && !is_small(member) {
        wrap(member, COPY, None);
    }
    parts
}

fn pay_for_key(key: &mut IdedExpr, patterns: &mut Vec<Regex>) -> u64 {
    let parts = pay(key, patterns);
    wrap_key(key);
    parts
}

/// A text is hashed as a whole to be a key, and to be looked up as one.
fn wrap_key(key: &mut IdedExpr) {
    if !is_small(key) {
        wrap(key, KEY, None);
    }
}

fn pay_for_call(call: &mut CallExpr, patterns: &mut Vec<Regex>) {
    match (call.func_name.as_str(), call.args.as_mut_slice()) {
        (operators::ADD, [left, right]) if may_grow(left, right) => {
            call.func_name = ADD.to_owned();
        }
        (
            operators::EQUALS
            | operators::NOT_EQUALS
            | operators::LESS
            | operators::LESS_EQUALS
            | operators::GREATER
            | operators::GREATER_EQUALS,
            [left, right],
        ) if !is_small(left) && !is_small(right) => {
            wrap(left, WEIGH, None);
            wrap(right, WEIGH, None);
        }
        (operators::IN, [left, right]) => {
            let price = if is_small(left) { SCAN } else { WEIGH };
            if !is_small(right) {
                wrap(right, price, None);
            }
            wrap_key(left);
        }
        (operators::INDEX, [_, key]) => wrap_key(key),
        ("matches", [.., pattern]) => {
            // That it compiles was checked before.
            patterns.extend(literal_text(pattern).and_then(|text| compile_pattern(text).ok()));
            pattern.expr = Expr::Ident(pattern_name(patterns.len().saturating_sub(1)));
            call.func_name = MATCH.to_owned();
            if let Some(text) = call.target.take() {
                call.args.insert(0, *text);
            }
        }
        ("type" | "dyn", _) => {}
        (name, args) if name.starts_with(|c: char| c.is_ascii_alphabetic()) => {
            // The size of a list is known; that of a text is counted, in characters.
            let price = if name == "size" { LENGTH } else { WEIGH };
            for text in call.target.as_deref_mut().into_iter().chain(args).filter(|text| !is_small(text)) {
                wrap(text, price, None);
            }
        }
        _ => {}
    }
}

/// Whether a sum may be larger than its parts. A number only adds to a number; and what a loop appends to is the
/// interpreter's own, and not copied.
fn may_grow(left: &IdedExpr, right: &IdedExpr) -> bool {
    let is_bounded = is_small(left) && is_small(right);
    !(is_bounded || is_number(left) || is_number(right) || is_accumulator(left))
}

fn is_number(node: &IdedExpr) -> bool {
    matches!(node.expr, Expr::Literal(LiteralValue::Int(_) | LiteralValue::UInt(_) | LiteralValue::Double(_)))
}

fn is_accumulator(node: &IdedExpr) -> bool {
    matches!(&node.expr, Expr::Ident(name) if name.starts_with('@'))
}

/// Whether a value is small whatever the data is: a literal, a number, or something of the actor or the instance.
fn is_small(node: &IdedExpr) -> bool {
    match &node.expr {
        Expr::Literal(_) => true,
        Expr::Ident(name) => name == Root::Now.name(),
        Expr::Select(select) => match &select.operand.expr {
            _ if select.test => true,
            Expr::Ident(name) => name == Root::Actor.name() || name == Root::Instance.name(),
            _ => false,
        },
        Expr::List(list) => list.elements.iter().all(|element| matches!(element.expr, Expr::Literal(_))),
        Expr::Call(call) => {
            let name = call.func_name.as_str();
            let grows = matches!(
                name,
                operators::ADD
                    | operators::CONDITIONAL
                    | operators::INDEX
                    | ADD
                    | COPY
                    | KEY
                    | LENGTH
                    | MATCH
                    | RANGE
                    | SCAN
                    | WEIGH
                    | "string"
                    | "bytes"
                    | "dyn"
            );
            !grows
        }
        _ => false,
    }
}

fn wrap(node: &mut IdedExpr, function: &str, extra: Option<Expr>) {
    let inner = std::mem::take(node);
    let id = inner.id;
    let args = std::iter::once(inner).chain(extra.map(|expr| IdedExpr { id, expr })).collect();
    *node = IdedExpr { id, expr: Expr::Call(CallExpr { func_name: function.to_owned(), target: None, args }) };
}
