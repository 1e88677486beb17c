//! What an evaluation may cost, counted in steps of about 0.1 µs: one for each part of the expression, and for what
//! the parts handle in bulk (members of lists, bytes of texts) as much as that takes.
//!
//! The expression is rewritten when it is compiled so that everything which can loop, copy or grow passes through one
//! of the functions here and pays *before* it does so. CEL's functions are plain `fn`s without a place for state, so
//! the purse hangs on the thread; a decision never leaves its thread.

use std::any::Any;
use std::cell::Cell;
use std::sync::Arc;

use cel::common::types::{
    CelBool, CelBytes, CelInt, CelList, CelMap, CelString, DYN_TYPE, INT_TYPE, Kind, STRING_TYPE, Type,
};
use cel::common::value::{CowVal, StaticVal, Val};
use cel::{DeclarationError, Env, ExecutionError};
use regex::Regex;

use super::values;
use crate::limits::EXPRESSION_STEPS_MAX;

/// `@range(collection, parts)`: a collection about to be looped over by a body of so many parts; of a map, its keys in
/// order (CEL leaves the order open, and a decision must not depend on it).
pub(super) const RANGE: &str = "@range";
/// `@add(a, b)`: `a + b`.
pub(super) const ADD: &str = "@add";
/// `@copy(x)`: `x`, about to be copied.
pub(super) const COPY: &str = "@copy";
/// `@weigh(x)`: `x`, about to be compared or converted as a whole.
pub(super) const WEIGH: &str = "@weigh";
/// `@scan(x)`: `x`, about to be searched for something small.
pub(super) const SCAN: &str = "@scan";
/// `@key(x)`: `x`, about to be hashed.
pub(super) const KEY: &str = "@key";
/// `@length(x)`: `x`, whose size is asked for.
pub(super) const LENGTH: &str = "@length";
/// `@match(text, pattern)`: whether the compiled pattern matches.
pub(super) const MATCH: &str = "@match";

/// Bytes of text read in one step: comparing and counting run at gigabytes a second.
const BYTES_READ_PER_STEP: usize = 1_024;

/// Bytes of text written in one step: new memory is touched for them.
const BYTES_WRITTEN_PER_STEP: usize = 64;

/// Members of a collection looked at, or made, in one step.
const MEMBERS_PER_STEP: u64 = 4;

/// Parts of a loop's body evaluated in one step.
const PARTS_PER_STEP: u64 = 2;

/// Bytes that a regular expression passes in one step: few, since some patterns take much longer than most.
const MATCH_BYTES_PER_STEP: usize = 8;

/// Places of a pattern that one byte may be tried at for that price. A pattern with more has so many times the price.
const PLAIN_POSITIONS: u64 = 64;

thread_local! {
    static LEFT: Cell<u64> = const { Cell::new(0) };
    static IS_SPENT: Cell<bool> = const { Cell::new(false) };
    static LEFT_ASIDE: Cell<u64> = const { Cell::new(0) };
}

/// Fills the purse for one decision: all guards and assigns of one command pay from it.
pub(crate) fn begin() {
    LEFT.set(EXPRESSION_STEPS_MAX);
    LEFT_ASIDE.set(EXPRESSION_STEPS_MAX);
    IS_SPENT.set(false);
}

/// Answers a question beside the decision, from a second purse, which all such questions of the decision share.
pub(crate) fn aside<T>(question: impl FnOnce() -> T) -> T {
    let (left, is_spent) = (LEFT.replace(LEFT_ASIDE.get()), IS_SPENT.replace(false));
    let answer = question();
    LEFT_ASIDE.set(LEFT.replace(left));
    IS_SPENT.set(is_spent);
    answer
}

/// Pays for copying JSON: its members, and its texts.
pub(super) fn charge_for_copy(value: &serde_json::Value) -> Result<(), ExecutionError> {
    use serde_json::Value;
    match value {
        Value::String(text) => charge(1 + (text.len() / BYTES_WRITTEN_PER_STEP) as u64),
        Value::Array(items) => {
            charge(1 + items.len() as u64 / MEMBERS_PER_STEP)?;
            items.iter().try_for_each(charge_for_copy)
        }
        Value::Object(fields) => {
            charge(2 + fields.len() as u64)?;
            fields.values().try_for_each(charge_for_copy)
        }
        // Copied with the collection that holds it.
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

/// Whether the budget was overrun since [`begin`]. An error alone does not tell: `true || <error>` is true.
pub(super) fn is_spent() -> bool {
    IS_SPENT.get()
}

/// Takes `steps`, or refuses and leaves nothing, so that every later step is refused too.
pub(super) fn charge(steps: u64) -> Result<(), ExecutionError> {
    if let Some(left) = LEFT.get().checked_sub(steps) {
        LEFT.set(left);
        return Ok(());
    }
    LEFT.set(0);
    IS_SPENT.set(true);
    Err(ExecutionError::function_error("cost", "too many steps"))
}

/// Declares the functions above.
pub(super) fn declare(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_overload(RANGE, "range", vec![DYN_TYPE, INT_TYPE], range)?;
    env.add_overload(ADD, "add", vec![DYN_TYPE, DYN_TYPE], add)?;
    env.add_overload(COPY, "copy", vec![DYN_TYPE], copy)?;
    env.add_overload(WEIGH, "weigh", vec![DYN_TYPE], weigh)?;
    env.add_overload(KEY, "key", vec![DYN_TYPE], key)?;
    env.add_overload(LENGTH, "length", vec![DYN_TYPE], length)?;
    env.add_overload(SCAN, "scan", vec![DYN_TYPE], scan)?;
    env.add_overload(MATCH, "match", vec![STRING_TYPE, DYN_TYPE], matching)
}

fn range<'b, 'v>(mut args: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let parts = args.pop().and_then(|parts| parts.downcast_ref::<CelInt>().map(|p| p.inner().unsigned_abs()));
    let collection = args.pop().ok_or_else(ExecutionError::missing_argument_or_target)?;
    let members = members(collection.as_ref());
    // Each round also binds its variable and looks whether to go on.
    charge(members.saturating_mul(parts.unwrap_or(1).saturating_add(2)) / PARTS_PER_STEP)?;
    // Members that CEL made are copied as a whole into the loop's variable; those of JSON only stand for it.
    match collection.as_ref().get_type().kind() {
        Kind::List => {
            if !values::is_json(collection.as_ref()) {
                charge(weight_of_members(collection.as_ref(), copy_weight))?;
            }
            Ok(collection)
        }
        Kind::Map => {
            let map = collection.downcast_ref::<CelMap>().ok_or_else(ExecutionError::missing_argument_or_target)?;
            let mut keys: Vec<_> = map.inner().keys().cloned().collect();
            keys.sort_unstable();
            Ok(CowVal::owned(CelList::from(keys.into_iter().map(key_value).collect::<Vec<_>>())))
        }
        _ => Ok(collection),
    }
}

fn key_value<'v>(key: cel::common::types::CelMapKey<'v>) -> Box<dyn Val + 'v> {
    use cel::common::types::CelMapKey;
    match key {
        CelMapKey::Bool(key) => Box::new(key),
        CelMapKey::Int(key) => Box::new(key),
        CelMapKey::UInt(key) => Box::new(key),
        CelMapKey::String(key) => Box::new(key),
    }
}

fn add<'b, 'v>(mut args: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let (Some(right), Some(left)) = (args.pop(), args.pop()) else {
        return Err(ExecutionError::missing_argument_or_target());
    };
    let written = |value: &CowVal<'b, 'v>| match value.downcast_ref::<CelString>() {
        Some(text) => (text.inner().len() / BYTES_WRITTEN_PER_STEP) as u64,
        None => weight_by(value.as_ref(), copy_weight),
    };
    charge(written(&left).saturating_add(written(&right)))?;
    let Some(adder) = left.as_adder() else {
        let types = [&left, &right].map(|value| value.get_type().name().to_owned());
        return Err(ExecutionError::no_such_overload("_+_", types.to_vec()));
    };
    Ok(CowVal::Owned(adder.add(right.as_ref())?.into_owned()))
}

fn copy<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    pay_for(args, copy_weight)
}

fn weigh<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    pay_for(args, weight)
}

fn scan<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    pay_for(args, |value| match value.get_type().kind() {
        Kind::List => members(value) / MEMBERS_PER_STEP,
        Kind::Map => 0,
        _ => weight(value),
    })
}

fn key<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    pay_for(args, |value| match value.downcast_ref::<CelString>() {
        Some(text) => (text.inner().len() / BYTES_WRITTEN_PER_STEP) as u64,
        None => 0,
    })
}

fn length<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    pay_for(args, |value| match value.get_type().kind() {
        Kind::List | Kind::Map => 0,
        _ => weight(value),
    })
}

fn matching<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let (text, pattern) = match args.as_slice() {
        [text, pattern] => (text.downcast_ref::<CelString>(), pattern.downcast_ref::<Pattern>()),
        _ => (None, None),
    };
    let (Some(text), Some(Pattern { regex, weight })) = (text, pattern) else {
        return Err(ExecutionError::missing_argument_or_target());
    };
    charge(((text.inner().len() / MATCH_BYTES_PER_STEP) as u64).saturating_mul(*weight))?;
    Ok(CowVal::owned(CelBool::from(regex.is_match(text.inner()))))
}

/// A compiled regular expression as a value; no expression can get hold of it.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    regex: Arc<Regex>,
    /// How many times the price of a plain pattern it has.
    weight: u64,
}

impl Pattern {
    pub(super) fn new(regex: Regex) -> Self {
        let weight = (crate::pattern::positions(regex.as_str()) / PLAIN_POSITIONS).max(1);
        Self { regex: Arc::new(regex), weight }
    }

    pub(super) fn text(&self) -> &str {
        self.regex.as_str()
    }
}

impl Val for Pattern {
    fn get_type(&self) -> &Type {
        &DYN_TYPE
    }

    fn cel_type() -> &'static Type {
        &DYN_TYPE
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v> {
        Box::new(self.clone())
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl StaticVal for Pattern {}

fn pay_for<'b, 'v>(
    mut args: Vec<CowVal<'b, 'v>>,
    price: fn(&dyn Val) -> u64,
) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let value = args.pop().ok_or_else(ExecutionError::missing_argument_or_target)?;
    charge(price(value.as_ref()))?;
    Ok(value)
}

fn members(value: &dyn Val) -> u64 {
    value.as_sizer().map_or(0, |sizer| sizer.size().inner().unsigned_abs())
}

/// Pays for making so many members.
pub(super) fn charge_for_members(members: usize) -> Result<(), ExecutionError> {
    charge(1 + members as u64 / MEMBERS_PER_STEP)
}

/// Pays for writing `bytes` bytes of text.
pub(super) fn charge_for_text(bytes: usize) -> Result<(), ExecutionError> {
    charge((bytes / BYTES_WRITTEN_PER_STEP) as u64)
}

/// Steps that copying `value` takes. What stands for JSON is not copied; nor is a text that lies in it.
fn copy_weight(value: &dyn Val) -> u64 {
    if values::is_json(value) {
        return 1;
    }
    match value.downcast_ref::<CelString>() {
        Some(text) if text.as_borrowed().is_some() => 1,
        Some(text) => (text.inner().len() / BYTES_WRITTEN_PER_STEP) as u64,
        None => weight_by(value, copy_weight),
    }
}

/// Steps that reading the whole of `value` takes: its members and their texts, all the way down.
fn weight(value: &dyn Val) -> u64 {
    match value.downcast_ref::<CelString>() {
        Some(text) => (text.inner().len() / BYTES_READ_PER_STEP) as u64,
        None => weight_by(value, weight),
    }
}

fn weight_by(value: &dyn Val, of_member: fn(&dyn Val) -> u64) -> u64 {
    let own = match value.get_type().kind() {
        Kind::List => 1 + members(value) / MEMBERS_PER_STEP,
        // A map hashes each of its keys.
        Kind::Map => 2 + members(value),
        Kind::Bytes => value.downcast_ref::<CelBytes>().map_or(0, |b| b.inner().len() / BYTES_WRITTEN_PER_STEP) as u64,
        _ => 0,
    };
    // Looking costs too, and past the budget there is nothing more to learn.
    if own == 0 || own > LEFT.get() {
        return own;
    }
    own.saturating_add(weight_of_members(value, of_member))
}

fn weight_of_members(value: &dyn Val, of_member: fn(&dyn Val) -> u64) -> u64 {
    let mut sum = 0_u64;
    let mut add = |member: &dyn Val| {
        sum = sum.saturating_add(of_member(member));
        sum <= LEFT.get()
    };
    if let Some(map) = value.downcast_ref::<CelMap>() {
        let _ = map.inner().values().all(|member| add(member.as_ref()));
    } else if let Some(list) = value.downcast_ref::<CelList>() {
        let _ = list.inner().iter().all(|member| add(member.as_ref()));
    }
    sum
}
