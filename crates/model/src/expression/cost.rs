//! What an evaluation may cost, counted in steps of about 0.1 µs: one for each part of the expression, and for what
//! the parts handle in bulk (members of lists, bytes of texts) as much as that takes.
//!
//! The expression is rewritten when it is compiled so that everything which can loop, copy or grow passes through one
//! of the functions here and pays *before* it does so. CEL's functions are plain `fn`s without a place for state, so
//! the purse hangs on the thread; an evaluation never leaves its thread.

use std::cell::Cell;

use cel::common::types::{CelBytes, CelInt, CelList, CelMap, CelString, DYN_TYPE, INT_TYPE, Kind};
use cel::common::value::{CowVal, Val};
use cel::{DeclarationError, Env, ExecutionError};

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
/// `@length(x)`: `x`, whose size is asked for.
pub(super) const LENGTH: &str = "@length";
/// `@match(x)`: `x`, about to be matched by a regular expression.
pub(super) const MATCH: &str = "@match";

/// Bytes of text handled in one step: copying and comparing run at gigabytes a second.
const BYTES_PER_STEP: usize = 256;

/// Bytes that a regular expression passes in one step.
const MATCH_BYTES_PER_STEP: usize = 16;

/// Compiling a regular expression, which happens at each match.
const MATCH_COMPILE_STEPS: u64 = 1_000;

thread_local! {
    static LEFT: Cell<u64> = const { Cell::new(0) };
    static IS_SPENT: Cell<bool> = const { Cell::new(false) };
}

/// Fills the purse for one evaluation of an expression of `parts` parts.
pub(super) fn begin(parts: u64) -> Result<(), ExecutionError> {
    LEFT.set(EXPRESSION_STEPS_MAX);
    IS_SPENT.set(false);
    charge(parts)
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
    env.add_overload(LENGTH, "length", vec![DYN_TYPE], length)?;
    env.add_overload(SCAN, "scan", vec![DYN_TYPE], scan)?;
    env.add_overload(MATCH, "match", vec![DYN_TYPE], matching)
}

fn range<'b, 'v>(mut args: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let parts = args.pop().and_then(|parts| parts.downcast_ref::<CelInt>().map(|p| p.inner().unsigned_abs()));
    let collection = args.pop().ok_or_else(ExecutionError::missing_argument_or_target)?;
    let members = collection.as_sizer().map_or(0, |sizer| sizer.size().inner().unsigned_abs());
    charge(members.saturating_mul(parts.unwrap_or(1).saturating_add(2)))?;
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
    let whole = |value: &CowVal<'b, 'v>| weight(value.as_ref());
    charge(whole(&left).saturating_add(whole(&right)))?;
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
        Kind::List => value.as_sizer().map_or(0, |sizer| sizer.size().inner().unsigned_abs()),
        Kind::Map => 1,
        _ => weight(value),
    })
}

fn length<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    pay_for(args, |value| match value.get_type().kind() {
        Kind::List | Kind::Map => 0,
        _ => weight(value),
    })
}

fn matching<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    pay_for(args, |value| {
        let bytes = value.downcast_ref::<CelString>().map_or(0, |text| text.inner().len());
        MATCH_COMPILE_STEPS + (bytes / MATCH_BYTES_PER_STEP) as u64
    })
}

fn pay_for<'b, 'v>(
    mut args: Vec<CowVal<'b, 'v>>,
    price: fn(&dyn Val) -> u64,
) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let value = args.pop().ok_or_else(ExecutionError::missing_argument_or_target)?;
    charge(price(value.as_ref()))?;
    Ok(value)
}

/// Steps that copying `value` takes.
fn copy_weight(value: &dyn Val) -> u64 {
    if values::is_json(value) { 0 } else { weight_by(value, copy_weight) }
}

/// Steps that handling the whole of `value` takes: its members and their texts, all the way down.
fn weight(value: &dyn Val) -> u64 {
    weight_by(value, weight)
}

fn weight_by(value: &dyn Val, of_member: fn(&dyn Val) -> u64) -> u64 {
    match value.get_type().kind() {
        Kind::String => value.downcast_ref::<CelString>().map_or(0, |text| text.inner().len() / BYTES_PER_STEP) as u64,
        Kind::Bytes => value.downcast_ref::<CelBytes>().map_or(0, |bytes| bytes.inner().len() / BYTES_PER_STEP) as u64,
        Kind::List | Kind::Map => {
            let members = value.as_sizer().map_or(0, |sizer| sizer.size().inner().unsigned_abs());
            // Looking costs too, and past the budget there is nothing more to learn.
            if members > LEFT.get() {
                return members;
            }
            members.saturating_add(weight_of_members(value, of_member))
        }
        _ => 0,
    }
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
