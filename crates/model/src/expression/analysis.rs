//! What is checked once an expression is parsed, and how it is rewritten so that it pays for what it does.

use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators};

use super::bounds::{find_member, find_name};
use super::cost::{ADD, COPY, LENGTH, MATCH, RANGE, SCAN, WEIGH};
use super::{Fault, Root};
use crate::definition::suggestion::hint;
use crate::limits::COMPREHENSION_DEPTH_MAX;

/// Depth of a parsed expression; evaluating one level takes up to 25 KiB of stack in a debug build. Chains of `&&` and
/// of `||` are balanced by the parser and may be long.
const TREE_DEPTH_MAX: usize = 32;

/// Functions that are called as `f(x)`.
const GLOBAL_FUNCTIONS: &[&str] =
    &["bool", "bytes", "double", "duration", "dyn", "int", "matches", "size", "string", "timestamp", "type", "uint"];

/// Functions that are called as `x.f()`.
const MEMBER_FUNCTIONS: &[&str] = &[
    "contains",
    "endsWith",
    "getDate",
    "getDayOfMonth",
    "getDayOfWeek",
    "getDayOfYear",
    "getFullYear",
    "getHours",
    "getMilliseconds",
    "getMinutes",
    "getMonth",
    "getSeconds",
    "matches",
    "size",
    "startsWith",
];

/// Macros; they only remain as calls when their arguments are wrong.
const MACROS: &[(&str, &str)] = &[
    ("has", "has(data.field)"),
    ("all", "list.all(x, condition)"),
    ("exists", "list.exists(x, condition)"),
    ("exists_one", "list.exists_one(x, condition)"),
    ("map", "list.map(x, expression)"),
    ("filter", "list.filter(x, condition)"),
];

/// Names of types, as in `type(x) == string`.
const TYPES: &[&str] = &["bool", "bytes", "double", "int", "list", "map", "null_type", "string", "type", "uint"];

/// Which fields of a variable an expression reads.
#[derive(Debug, PartialEq)]
pub(super) struct Use {
    pub(super) root: Root,
    /// The fields selected by name; none: the variable as a whole.
    pub(super) fields: Option<Vec<String>>,
}

/// What the analysis found.
pub(super) struct Analysis {
    pub(super) uses: Vec<Use>,
    /// Parts of the expression.
    pub(super) parts: u64,
}

/// Checks `tree` and rewrites it.
pub(super) fn analyse(text: &str, tree: &mut IdedExpr) -> Result<Analysis, Vec<Fault>> {
    let mut walk = Walk { text, uses: Vec::new(), faults: Vec::new(), locals: Vec::new(), loops: 0, parts: 0 };
    walk.check(tree, 0);
    if !walk.faults.is_empty() {
        return Err(walk.faults);
    }
    pay(tree);
    Ok(Analysis { uses: walk.uses, parts: walk.parts })
}

struct Walk<'t> {
    text: &'t str,
    uses: Vec<Use>,
    faults: Vec<Fault>,
    /// Variables of the comprehensions around.
    locals: Vec<String>,
    loops: usize,
    parts: u64,
}

impl Walk<'_> {
    fn fault(&mut self, offset: usize, message: impl Into<String>, remedy: impl Into<String>) {
        self.faults.push(Fault::new(offset, message, remedy));
    }

    fn check(&mut self, node: &IdedExpr, depth: usize) {
        self.parts += 1;
        if depth > TREE_DEPTH_MAX {
            if self.faults.is_empty() {
                let message = format!("the expression is nested more than {TREE_DEPTH_MAX} deep");
                self.fault(0, message, "make the chain of operators shorter, or split it with brackets");
            }
            return;
        }
        let depth = depth + 1;
        match &node.expr {
            Expr::Ident(name) => self.name(name, None),
            Expr::Select(select) => match (&select.operand.expr, select.test) {
                (Expr::Ident(name), _) => self.name(name, Some(&select.field)),
                _ => self.check(&select.operand, depth),
            },
            Expr::Call(call) => self.call(call, depth),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension, depth),
            Expr::List(list) => list.elements.iter().for_each(|element| self.check(element, depth)),
            Expr::Map(map) => {
                for entry in &map.entries {
                    if let EntryExpr::MapEntry(entry) = &entry.expr {
                        self.check(&entry.key, depth);
                        self.check(&entry.value, depth);
                    }
                }
            }
            Expr::Struct(literal) => {
                let message = format!("there is no message type {:?}", literal.type_name);
                self.fault(find_name(self.text, &literal.type_name), message, "write a map: `{'field': value}`");
            }
            Expr::Literal(_) | Expr::Unspecified => {}
        }
    }

    fn name(&mut self, name: &str, field: Option<&str>) {
        let name = name.strip_prefix('.').unwrap_or(name);
        if self.locals.iter().any(|local| local == name) || name.starts_with('@') {
            return;
        }
        if let Some(root) = Root::ALL.iter().copied().find(|root| root.name() == name) {
            self.used(root, field);
            if let (Some(known), Some(field)) = (root.fields(), field)
                && !known.contains(&field)
            {
                let message = format!("`{name}` has no field {field:?}{}", hint(field, known.iter().copied()));
                self.fault(find_member(self.text, field), message, format!("known fields: {}", known.join(", ")));
            }
        } else if !TYPES.contains(&name) {
            let roots = Root::ALL.map(Root::name);
            let message = format!("unknown variable {name:?}{}", hint(name, roots));
            let remedy =
                format!("known: {}; a field of the data is `data.{name}`, a text is `'{name}'`", roots.join(", "));
            self.fault(find_name(self.text, name), message, remedy);
        }
    }

    fn used(&mut self, root: Root, field: Option<&str>) {
        let at = self.uses.iter().position(|used| used.root == root).unwrap_or_else(|| {
            self.uses.push(Use { root, fields: Some(Vec::new()) });
            self.uses.len() - 1
        });
        let fields = &mut self.uses[at].fields;
        match (field, fields.as_mut()) {
            (None, _) => *fields = None,
            (Some(field), Some(known)) if !known.iter().any(|name| name == field) => known.push(field.to_owned()),
            _ => {}
        }
    }

    fn call(&mut self, call: &CallExpr, depth: usize) {
        let name = call.func_name.as_str();
        let is_operator = !name.starts_with(|c: char| c.is_ascii_alphabetic());
        let known = if call.target.is_some() { MEMBER_FUNCTIONS } else { GLOBAL_FUNCTIONS };
        if !is_operator && !known.contains(&name) {
            self.unknown_function(name, known, call.target.is_some());
        }
        if name == "matches" {
            self.pattern(call);
        }
        if let Some(target) = &call.target {
            self.check(target, depth);
        }
        call.args.iter().for_each(|arg| self.check(arg, depth));
    }

    fn unknown_function(&mut self, name: &str, known: &[&str], is_member: bool) {
        let offset = find_member(self.text, name);
        if let Some((_, usage)) = MACROS.iter().find(|(known, _)| *known == name) {
            return self.fault(offset, format!("`{name}` is used wrongly"), format!("write `{usage}`"));
        }
        let other = if is_member { GLOBAL_FUNCTIONS } else { MEMBER_FUNCTIONS };
        let names = known.iter().copied().chain(MACROS.iter().map(|(name, _)| *name));
        let (message, remedy) = match (other.contains(&name), is_member) {
            (true, true) => (format!("`{name}` is no method"), format!("write `{name}(value)`")),
            (true, false) => (format!("`{name}` is a method"), format!("write `value.{name}(…)`")),
            _ => {
                (format!("unknown function {name:?}{}", hint(name, names)), format!("known here: {}", known.join(", ")))
            }
        };
        self.fault(offset, message, remedy);
    }

    /// The pattern of `matches` is fixed, so that its errors and its size are known when the definition is put.
    fn pattern(&mut self, call: &CallExpr) {
        /// Bytes of a compiled pattern; compiling takes time in proportion, and happens at each match.
        const COMPILED_BYTES_MAX: usize = 64 * 1024;
        let offset = find_member(self.text, "matches");
        match call.args.last().map(|arg| &arg.expr) {
            Some(Expr::Literal(LiteralValue::String(pattern))) => {
                if let Err(error) = regex::RegexBuilder::new(pattern.inner()).size_limit(COMPILED_BYTES_MAX).build() {
                    let reason = error.to_string();
                    let reason = reason.lines().last().unwrap_or_default().trim().to_owned();
                    self.fault(
                        offset,
                        format!("the pattern of `matches` is not usable: {reason}"),
                        "correct the pattern",
                    );
                }
            }
            _ => self.fault(offset, "the pattern of `matches` is computed", "write the pattern as a text in quotes"),
        }
    }

    fn comprehension(&mut self, comprehension: &ComprehensionExpr, depth: usize) {
        self.check(&comprehension.iter_range, depth);
        let variable = &comprehension.iter_var;
        if Root::ALL.iter().any(|root| root.name() == variable) {
            let message = format!("the loop variable {variable:?} hides a variable of that name");
            self.fault(find_name(self.text, variable), message, "give it another name, for example `x`");
        }
        self.loops += 1;
        if self.loops > COMPREHENSION_DEPTH_MAX {
            let message = format!(
                "more than {COMPREHENSION_DEPTH_MAX} loops (`all`, `exists`, `map`, `filter`) inside one another"
            );
            self.fault(0, message, "nest fewer loops");
        }
        self.locals.push(variable.clone());
        for part in
            [&comprehension.accu_init, &comprehension.loop_cond, &comprehension.loop_step, &comprehension.result]
        {
            self.check(part, depth);
        }
        self.locals.pop();
        self.loops -= 1;
    }
}

/// Wraps whatever may loop, copy or grow in the functions of [`super::cost`]; gives the number of parts.
fn pay(node: &mut IdedExpr) -> u64 {
    let parts = match &mut node.expr {
        Expr::Call(call) => {
            let parts = call.target.as_deref_mut().map_or(0, pay) + call.args.iter_mut().map(pay).sum::<u64>();
            pay_for_call(call);
            parts
        }
        Expr::Comprehension(comprehension) => {
            let body = pay(&mut comprehension.loop_cond) + pay(&mut comprehension.loop_step);
            let rest =
                pay(&mut comprehension.iter_range) + pay(&mut comprehension.accu_init) + pay(&mut comprehension.result);
            let parts = Expr::Literal(LiteralValue::Int(i64::try_from(body).unwrap_or(i64::MAX).into()));
            wrap(&mut comprehension.iter_range, RANGE, Some(parts));
            body + rest
        }
        Expr::Select(select) => pay(&mut select.operand),
        Expr::List(list) => list.elements.iter_mut().map(pay_for_member).sum(),
        Expr::Map(map) => map
            .entries
            .iter_mut()
            .map(|entry| match &mut entry.expr {
                EntryExpr::MapEntry(entry) => pay(&mut entry.key) + pay_for_member(&mut entry.value),
                EntryExpr::StructField(field) => pay(&mut field.value),
            })
            .sum(),
        Expr::Ident(_) | Expr::Literal(_) | Expr::Struct(_) | Expr::Unspecified => 0,
    };
    parts + 1
}

fn pay_for_member(member: &mut IdedExpr) -> u64 {
    let parts = pay(member);
    if !is_small(member) {
        wrap(member, COPY, None);
    }
    parts
}

fn pay_for_call(call: &mut CallExpr) {
    match (call.func_name.as_str(), call.args.as_mut_slice()) {
        // What a loop appends to is the interpreter's own, and not copied.
        (operators::ADD, [left, right]) if !is_small(left) && !is_small(right) && !is_accumulator(left) => {
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
        (operators::IN, [left, right]) if !is_small(right) => {
            let price = if is_small(left) { SCAN } else { WEIGH };
            wrap(right, price, None);
        }
        ("matches", [.., _pattern]) => {
            let text = call.target.as_deref_mut().or(call.args.first_mut());
            if let Some(text) = text {
                wrap(text, MATCH, None);
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

fn is_accumulator(node: &IdedExpr) -> bool {
    matches!(&node.expr, Expr::Ident(name) if name.starts_with('@'))
}

/// Whether a value is small whatever the data is: a literal, a number, or something of the actor or the instance.
fn is_small(node: &IdedExpr) -> bool {
    match &node.expr {
        Expr::Literal(_) => true,
        Expr::Ident(name) => name == Root::Now.name() || TYPES.contains(&name.as_str()),
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
