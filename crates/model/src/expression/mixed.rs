//! Arithmetic on numbers of both kinds. CEL knows whole numbers and fractions, and mixes them in comparisons alone; JSON
//! has numbers, so that `data.amount * 1.2` would depend on whether somebody wrote `100` or `100.0`. Here a whole number
//! beside a fraction is taken as one.

use cel::common::types::{CelDouble, CelInt, DYN_TYPE};
use cel::common::value::CowVal;
use cel::{DeclarationError, Env, ExecutionError, Value};

/// `@plus(a, b)`: `a + b`, of which nothing grows.
pub(super) const PLUS: &str = "@plus";
/// `@minus(a, b)`: `a - b`.
pub(super) const MINUS: &str = "@minus";
/// `@times(a, b)`: `a * b`.
pub(super) const TIMES: &str = "@times";
/// `@over(a, b)`: `a / b`.
pub(super) const OVER: &str = "@over";

type Args<'b, 'v> = Vec<CowVal<'b, 'v>>;
type Found<'b, 'v> = Result<CowVal<'b, 'v>, ExecutionError>;

/// Declares the functions above.
pub(super) fn declare(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_overload(PLUS, "plus", vec![DYN_TYPE, DYN_TYPE], plus)?;
    env.add_overload(MINUS, "minus", vec![DYN_TYPE, DYN_TYPE], minus)?;
    env.add_overload(TIMES, "times", vec![DYN_TYPE, DYN_TYPE], times)?;
    env.add_overload(OVER, "over", vec![DYN_TYPE, DYN_TYPE], over)
}

/// `left + right`.
pub(super) fn add<'b, 'v>(left: &CowVal<'b, 'v>, right: &CowVal<'b, 'v>) -> Found<'b, 'v> {
    if let Some((left, right)) = fractions(left, right) {
        return Ok(CowVal::owned(CelDouble::from(left + right)));
    }
    let adder = left.as_adder().ok_or_else(|| unsupported("add", left, right))?;
    Ok(CowVal::Owned(adder.add(right.as_ref())?.into_owned()))
}

fn plus<'b, 'v>(args: Args<'b, 'v>) -> Found<'b, 'v> {
    let (left, right) = pair(args)?;
    add(&left, &right)
}

fn minus<'b, 'v>(args: Args<'b, 'v>) -> Found<'b, 'v> {
    let (left, right) = pair(args)?;
    if let Some((left, right)) = fractions(&left, &right) {
        return Ok(CowVal::owned(CelDouble::from(left - right)));
    }
    let subtractor = left.as_subtractor().ok_or_else(|| unsupported("sub", &left, &right))?;
    Ok(CowVal::Owned(subtractor.sub(right.as_ref())?.into_owned()))
}

fn times<'b, 'v>(args: Args<'b, 'v>) -> Found<'b, 'v> {
    let (left, right) = pair(args)?;
    if let Some((left, right)) = fractions(&left, &right) {
        return Ok(CowVal::owned(CelDouble::from(left * right)));
    }
    let multiplier = left.as_multiplier().ok_or_else(|| unsupported("mul", &left, &right))?;
    Ok(CowVal::Owned(multiplier.mul(right.as_ref())?.into_owned()))
}

fn over<'b, 'v>(args: Args<'b, 'v>) -> Found<'b, 'v> {
    let (left, right) = pair(args)?;
    if let Some((left, right)) = fractions(&left, &right) {
        return Ok(CowVal::owned(CelDouble::from(left / right)));
    }
    let divider = left.as_divider().ok_or_else(|| unsupported("div", &left, &right))?;
    Ok(CowVal::Owned(divider.div(right.as_ref())?.into_owned()))
}

fn pair<'b, 'v>(mut args: Args<'b, 'v>) -> Result<(CowVal<'b, 'v>, CowVal<'b, 'v>), ExecutionError> {
    match (args.pop(), args.pop()) {
        (Some(right), Some(left)) => Ok((left, right)),
        _ => Err(ExecutionError::missing_argument_or_target()),
    }
}

/// Both as fractions, where one is one and the other is whole.
fn fractions(left: &CowVal<'_, '_>, right: &CowVal<'_, '_>) -> Option<(f64, f64)> {
    let whole = |value: &CowVal<'_, '_>| value.downcast_ref::<CelInt>().map(|value| *value.inner() as f64);
    let fraction = |value: &CowVal<'_, '_>| value.downcast_ref::<CelDouble>().map(|value| *value.inner());
    match (whole(left), fraction(right)) {
        (Some(left), Some(right)) => Some((left, right)),
        _ => Some((fraction(left)?, whole(right)?)),
    }
}

fn unsupported(operation: &'static str, left: &CowVal<'_, '_>, right: &CowVal<'_, '_>) -> ExecutionError {
    let [left, right] = [left, right].map(|value| Value::try_from(value.as_ref()).unwrap_or(Value::Null));
    ExecutionError::UnsupportedBinaryOperator(operation, left, right)
}
