//! What is checked once an expression is parsed, and how it is rewritten so that it pays for what it does.

use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue};

use regex::{Regex, RegexBuilder};

use super::bounds::{find_member, find_name};
use super::pricing::pay;
use super::purpose::Purpose;
use super::{Fault, Root};
use crate::definition::suggestion::hint;
use crate::limits::COMPREHENSION_DEPTH_MAX;

/// Depth of an expression as it is evaluated; one level takes up to 30 KiB of stack in a debug build. Chains of `&&` and
/// of `||` are balanced by the parser and may be long.
const TREE_DEPTH_MAX: usize = 36;

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
    /// The patterns of `matches`, compiled; the n-th is bound as `pricing::pattern_name(n)`.
    pub(super) patterns: Vec<Regex>,
    /// Parts of the expression.
    pub(super) parts: u64,
}

/// The part of the data or of the event that `tree` names, if it does nothing else.
pub(super) fn path(tree: &IdedExpr) -> Option<(Root, Vec<String>)> {
    match &tree.expr {
        Expr::Ident(name) => [Root::Data, Root::Event].into_iter().find(|r| r.name() == name).map(|r| (r, Vec::new())),
        Expr::Select(select) if !select.test => {
            let (root, mut path) = path(&select.operand)?;
            path.push(select.field.clone());
            Some((root, path))
        }
        _ => None,
    }
}

/// Checks `tree`, and rewrites it.
pub(super) fn analyse(purpose: Purpose, text: &str, tree: &mut IdedExpr) -> Result<Analysis, Vec<Fault>> {
    check_depth(tree)?;
    purpose.check_result(tree)?;
    let mut walk = Walk { purpose, text, uses: Vec::new(), faults: Vec::new(), locals: Vec::new(), loops: 0 };
    walk.check(tree);
    if !walk.faults.is_empty() {
        walk.faults.sort_by_key(|fault| fault.offset);
        return Err(walk.faults);
    }
    let mut patterns = Vec::new();
    let parts = pay(tree, &mut patterns);
    check_depth(tree)?;
    Ok(Analysis { uses: walk.uses, patterns, parts })
}

fn check_depth(tree: &IdedExpr) -> Result<(), Vec<Fault>> {
    if !is_deeper(tree, TREE_DEPTH_MAX) {
        return Ok(());
    }
    let message = format!("more than {TREE_DEPTH_MAX} operations depend on one another in a chain");
    Err(vec![Fault::new(0, message, "make the chain shorter, or balance it with brackets: `(a + b) + (c + d)`")])
}

/// Whether `node` has more than `levels` levels; looks no deeper than that.
fn is_deeper(node: &IdedExpr, levels: usize) -> bool {
    let Some(levels) = levels.checked_sub(1) else { return true };
    match &node.expr {
        Expr::Call(call) => {
            call.target.iter().any(|t| is_deeper(t, levels)) || call.args.iter().any(|arg| is_deeper(arg, levels))
        }
        Expr::Comprehension(c) => [&c.iter_range, &c.accu_init, &c.loop_cond, &c.loop_step, &c.result]
            .into_iter()
            .any(|part| is_deeper(part, levels)),
        Expr::List(list) => list.elements.iter().any(|element| is_deeper(element, levels)),
        Expr::Map(map) => map.entries.iter().any(|entry| entry_is_deeper(&entry.expr, levels)),
        Expr::Struct(literal) => literal.entries.iter().any(|entry| entry_is_deeper(&entry.expr, levels)),
        Expr::Select(select) => is_deeper(&select.operand, levels),
        Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => false,
    }
}

fn entry_is_deeper(entry: &EntryExpr, levels: usize) -> bool {
    match entry {
        EntryExpr::MapEntry(entry) => is_deeper(&entry.key, levels) || is_deeper(&entry.value, levels),
        EntryExpr::StructField(field) => is_deeper(&field.value, levels),
    }
}

struct Walk<'t> {
    purpose: Purpose,
    text: &'t str,
    uses: Vec<Use>,
    faults: Vec<Fault>,
    /// Variables of the comprehensions around.
    locals: Vec<String>,
    loops: usize,
}

impl Walk<'_> {
    fn fault(&mut self, offset: usize, message: impl Into<String>, remedy: impl Into<String>) {
        self.faults.push(Fault::new(offset, message, remedy));
    }

    fn check(&mut self, node: &IdedExpr) {
        match &node.expr {
            Expr::Ident(name) => self.name(name, None),
            Expr::Select(select) => match (&select.operand.expr, select.test) {
                (Expr::Ident(name), _) => self.name(name, Some(&select.field)),
                _ => self.check(&select.operand),
            },
            Expr::Call(call) => self.call(call),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::List(list) => list.elements.iter().for_each(|element| self.check(element)),
            Expr::Map(map) => {
                for entry in &map.entries {
                    if let EntryExpr::MapEntry(entry) = &entry.expr {
                        self.check(&entry.key);
                        self.check(&entry.value);
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
            } else if let Some((message, remedy)) = self.purpose.hides(root, field) {
                self.fault(find_name(self.text, name), message, remedy);
            }
        } else if !TYPES.contains(&name) {
            let roots: Vec<_> = self.purpose.roots().iter().map(|root| root.name()).collect();
            let message = format!("unknown variable {name:?}{}", hint(name, roots.iter().copied()));
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

    fn call(&mut self, call: &CallExpr) {
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
            self.check(target);
        }
        call.args.iter().for_each(|arg| self.check(arg));
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

    /// The pattern of `matches` is fixed, so that it is compiled, and its errors are known, when the definition is put.
    fn pattern(&mut self, call: &CallExpr) {
        let offset = find_member(self.text, "matches");
        let Some(pattern) = call.args.last().and_then(literal_text) else {
            return self.fault(offset, "the pattern of `matches` is computed", "write the pattern as a text in quotes");
        };
        if let Err(error) = compile_pattern(pattern) {
            let remedy = match error {
                regex::Error::CompiledTooBig(_) => {
                    "use smaller counts, and `[a-z]` or `[0-9]` instead of `\\w` or `\\d`"
                }
                _ => "correct the pattern",
            };
            let reason = error.to_string();
            let reason = reason.lines().last().unwrap_or_default().trim().trim_start_matches("error: ").to_owned();
            self.fault(offset, format!("the pattern of `matches` is not usable: {reason}"), remedy);
        }
    }

    fn comprehension(&mut self, comprehension: &ComprehensionExpr) {
        self.check(&comprehension.iter_range);
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
            self.check(part);
        }
        self.locals.pop();
        self.loops -= 1;
    }
}

pub(super) fn literal_text(node: &IdedExpr) -> Option<&str> {
    match &node.expr {
        Expr::Literal(LiteralValue::String(text)) => Some(text.inner()),
        _ => None,
    }
}

pub(super) fn compile_pattern(pattern: &str) -> Result<Regex, regex::Error> {
    /// Bytes of a compiled pattern: definitions stay in memory.
    const COMPILED_BYTES_MAX: usize = 128 * 1024;
    RegexBuilder::new(pattern).size_limit(COMPILED_BYTES_MAX).build()
}
