//! JSON as CEL sees it, and back. Nothing is copied on the way in: a list or a map stands for its JSON and makes its
//! members only when they are asked for, so a guard pays for what it reads and not for what the data holds.

use std::collections::HashMap;
use std::sync::OnceLock;

use cel::ExecutionError;
use cel::common::traits::{Adder, Container, Indexer, Iterable, Sizer, Zeroer};
use cel::common::types::{
    CelBool, CelBytes, CelDouble, CelDuration, CelInt, CelList, CelMap, CelMapKey, CelNull, CelString, CelTimestamp,
    CelUInt, Kind, LIST_TYPE, MAP_TYPE, Type,
};
use cel::common::value::{Builtin, BuiltinRef, CowVal, Val};
use chrono::{SecondsFormat, Utc};
use serde_json::{Number, Value};

use super::cost;
use crate::Data;
use crate::limits::DATA_DEPTH_MAX;

/// The types of values that stand for JSON: CEL's own, told from them by address.
static JSON_LIST: Type = LIST_TYPE;
static JSON_MAP: Type = MAP_TYPE;

/// Whether a value only stands for JSON, so that copying it copies nothing.
pub(super) fn is_json(value: &dyn Val) -> bool {
    let found = value.get_type();
    std::ptr::eq(found, &raw const JSON_LIST) || std::ptr::eq(found, &raw const JSON_MAP)
}

/// The CEL value of `json`. Integers are i64; one past that is a uint, which mixes with no int and cannot be kept.
pub(super) fn to_cel(json: &Value) -> Box<dyn Val + '_> {
    match json {
        Value::Null => Box::new(CelNull),
        Value::Bool(value) => Box::new(CelBool::from(*value)),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(value), _) => Box::new(CelInt::from(value)),
            (None, Some(value)) => Box::new(CelUInt::from(value)),
            (None, None) => Box::new(CelDouble::from(number.as_f64().unwrap_or(f64::NAN))),
        },
        Value::String(text) => Box::new(CelString::from(text.as_str())),
        Value::Array(items) => Box::new(JsonList { items, members: OnceLock::new() }),
        Value::Object(fields) => Box::new(JsonMap::new(fields)),
    }
}

/// A JSON list.
#[derive(Debug)]
struct JsonList<'v> {
    items: &'v [Value],
    members: OnceLock<CelList<'v>>,
}

/// A JSON object.
#[derive(Debug)]
pub(super) struct JsonMap<'v> {
    fields: &'v Data,
    members: OnceLock<CelMap<'v>>,
}

impl<'v> JsonList<'v> {
    /// One level of members. Past the budget it is empty: the evaluation is refused then, whatever it yields.
    fn members(&self) -> &CelList<'v> {
        self.members.get_or_init(|| match cost::charge_for_members(self.items.len()) {
            Ok(()) => CelList::from(self.items.iter().map(to_cel).collect::<Vec<_>>()),
            Err(_) => CelList::default(),
        })
    }
}

impl<'v> JsonMap<'v> {
    pub(super) fn new(fields: &'v Data) -> Self {
        Self { fields, members: OnceLock::new() }
    }

    /// One level of members, as for lists.
    fn members(&self) -> &CelMap<'v> {
        self.members.get_or_init(|| match cost::charge_for_members(self.fields.len()) {
            Ok(()) => {
                let member =
                    |(name, value): (&'v String, &'v Value)| (CelMapKey::String(name.as_str().into()), to_cel(value));
                CelMap::from(self.fields.iter().map(member).collect::<HashMap<_, _>>())
            }
            Err(_) => CelMap::default(),
        })
    }

    fn field(&self, key: &dyn Val) -> Option<&'v Value> {
        key.downcast_ref::<CelString>().and_then(|name| self.fields.get(name.inner()))
    }
}

impl<'v> Val for JsonList<'v> {
    fn get_type(&self) -> &Type {
        &JSON_LIST
    }

    fn cel_type() -> &'static Type {
        &JSON_LIST
    }

    fn as_adder<'b, 'w>(&'b self) -> Option<&'b (dyn Adder + 'w)>
    where
        Self: 'w,
    {
        self.members().as_adder()
    }

    fn as_container(&self) -> Option<&dyn Container> {
        self.members().as_container()
    }

    fn as_indexer<'b, 'w>(&'b self) -> Option<&'b (dyn Indexer + 'w)>
    where
        Self: 'w,
    {
        self.members().as_indexer()
    }

    fn into_indexer<'w>(self: Box<Self>) -> Option<Box<dyn Indexer + 'w>>
    where
        Self: 'w,
    {
        let list: Box<CelList<'w>> = Box::new(self.into_members());
        list.into_indexer()
    }

    fn as_iterable<'b, 'w>(&'b self) -> Option<&'b (dyn Iterable + 'w)>
    where
        Self: 'w,
    {
        self.members().as_iterable()
    }

    fn as_sizer(&self) -> Option<&dyn Sizer> {
        Some(self)
    }

    fn as_zeroer(&self) -> Option<&dyn Zeroer> {
        Some(self)
    }

    fn equals(&self, other: &dyn Val) -> bool {
        self.members().equals(other)
    }

    fn clone_as_boxed<'w>(&self) -> Box<dyn Val + 'w>
    where
        Self: 'w,
    {
        Box::new(JsonList { items: self.items, members: OnceLock::new() })
    }

    fn as_builtin<'b, 'w>(&'b self) -> BuiltinRef<'b, 'w>
    where
        Self: 'w,
    {
        BuiltinRef::List(self.members())
    }

    fn into_builtin<'w>(self: Box<Self>) -> Option<Builtin<'w>>
    where
        Self: 'w,
    {
        Some(Builtin::List(self.into_members()))
    }
}

impl<'v> JsonList<'v> {
    fn into_members(self) -> CelList<'v> {
        self.members();
        self.members.into_inner().unwrap_or_default()
    }
}

impl Sizer for JsonList<'_> {
    fn size(&self) -> CelInt {
        size(self.items.len())
    }
}

impl Zeroer for JsonList<'_> {
    fn is_zero_value(&self) -> bool {
        self.items.is_empty()
    }
}

impl<'v> Val for JsonMap<'v> {
    fn get_type(&self) -> &Type {
        &JSON_MAP
    }

    fn cel_type() -> &'static Type {
        &JSON_MAP
    }

    fn as_container(&self) -> Option<&dyn Container> {
        Some(self)
    }

    fn as_indexer<'b, 'w>(&'b self) -> Option<&'b (dyn Indexer + 'w)>
    where
        Self: 'w,
    {
        Some(self)
    }

    fn into_indexer<'w>(self: Box<Self>) -> Option<Box<dyn Indexer + 'w>>
    where
        Self: 'w,
    {
        Some(self)
    }

    fn as_iterable<'b, 'w>(&'b self) -> Option<&'b (dyn Iterable + 'w)>
    where
        Self: 'w,
    {
        self.members().as_iterable()
    }

    fn as_sizer(&self) -> Option<&dyn Sizer> {
        Some(self)
    }

    fn as_zeroer(&self) -> Option<&dyn Zeroer> {
        Some(self)
    }

    fn equals(&self, other: &dyn Val) -> bool {
        self.members().equals(other)
    }

    fn clone_as_boxed<'w>(&self) -> Box<dyn Val + 'w>
    where
        Self: 'w,
    {
        Box::new(JsonMap::new(self.fields))
    }

    fn as_builtin<'b, 'w>(&'b self) -> BuiltinRef<'b, 'w>
    where
        Self: 'w,
    {
        BuiltinRef::Map(self.members())
    }

    fn into_builtin<'w>(self: Box<Self>) -> Option<Builtin<'w>>
    where
        Self: 'w,
    {
        self.members();
        Some(Builtin::Map(self.members.into_inner().unwrap_or_default()))
    }
}

impl Container for JsonMap<'_> {
    fn contains(&self, key: &dyn Val) -> Result<bool, ExecutionError> {
        if self.field(key).is_some() { Ok(true) } else { CelMap::default().contains(key) }
    }
}

impl<'v> Indexer for JsonMap<'v> {
    fn get<'b, 'w>(&'b self, key: &dyn Val) -> Result<CowVal<'b, 'w>, ExecutionError>
    where
        Self: 'w,
    {
        match self.field(key) {
            Some(value) => Ok(CowVal::Owned(to_cel(value))),
            None => Err(missing(key)),
        }
    }

    fn steal<'w>(self: Box<Self>, key: &dyn Val) -> Result<Box<dyn Val + 'w>, ExecutionError>
    where
        Self: 'w,
    {
        self.field(key).map(|value| to_cel(value) as Box<dyn Val + 'w>).ok_or_else(|| missing(key))
    }
}

impl Sizer for JsonMap<'_> {
    fn size(&self) -> CelInt {
        size(self.fields.len())
    }
}

impl Zeroer for JsonMap<'_> {
    fn is_zero_value(&self) -> bool {
        self.fields.is_empty()
    }
}

/// The error of a map without the key, as CEL's own map words it.
fn missing(key: &dyn Val) -> ExecutionError {
    match CelMap::default().get(key) {
        Err(error) => error,
        Ok(_) => ExecutionError::no_such_key(""),
    }
}

fn size(len: usize) -> CelInt {
    CelInt::from(i64::try_from(len).unwrap_or(i64::MAX))
}

/// The JSON of a result: uints as i64 where they fit, timestamps as RFC 3339, durations as seconds (`"3600s"`).
///
/// # Errors
/// What it is that JSON, or an i64, cannot hold.
pub(super) fn to_json(value: &dyn Val) -> Result<Value, String> {
    to_json_within(value, DATA_DEPTH_MAX)
}

fn to_json_within(value: &dyn Val, depth: usize) -> Result<Value, String> {
    let other = || format!("a value of type {} cannot be kept as data", value.get_type().name());
    let Some(depth) = depth.checked_sub(1) else { return Err("the result is nested too deeply".to_owned()) };
    match value.get_type().kind() {
        Kind::NullType => Ok(Value::Null),
        Kind::Boolean => value.downcast_ref::<CelBool>().map(|b| Value::Bool(*b.inner())).ok_or_else(other),
        Kind::Int => value.downcast_ref::<CelInt>().map(|i| Value::from(*i.inner())).ok_or_else(other),
        Kind::UInt => {
            let number = *value.downcast_ref::<CelUInt>().ok_or_else(other)?.inner();
            i64::try_from(number).map(Value::from).map_err(|_| past_i64(number))
        }
        Kind::Double => {
            let number = *value.downcast_ref::<CelDouble>().ok_or_else(other)?.inner();
            Number::from_f64(number).map(Value::Number).ok_or_else(|| format!("{number} is no finite number"))
        }
        Kind::String => {
            let text = value.downcast_ref::<CelString>().ok_or_else(other)?.inner();
            cost::charge_for_text(text.len()).map_err(|_| over_budget())?;
            Ok(Value::from(text))
        }
        Kind::Timestamp => value.downcast_ref::<CelTimestamp>().map(timestamp).ok_or_else(other),
        Kind::Duration => value.downcast_ref::<CelDuration>().map(duration).ok_or_else(other),
        Kind::List => {
            let list = value.downcast_ref::<CelList>().ok_or_else(other)?;
            cost::charge_for_members(list.inner().len()).map_err(|_| over_budget())?;
            list.inner().iter().map(|item| to_json_within(item.as_ref(), depth)).collect()
        }
        Kind::Map => {
            let map = value.downcast_ref::<CelMap>().ok_or_else(other)?;
            cost::charge_for_members(map.inner().len()).map_err(|_| over_budget())?;
            // Sorted, so that the same decision is the same text whatever order the map has.
            let mut entries: Vec<_> = map.inner().iter().collect();
            entries.sort_unstable_by(|a, b| a.0.cmp(b.0));
            let mut fields = Data::new();
            for (key, value) in entries {
                let CelMapKey::String(name) = key else {
                    return Err("only texts can be keys of data".to_owned());
                };
                fields.insert(name.inner().to_owned(), to_json_within(value.as_ref(), depth)?);
            }
            Ok(Value::Object(fields))
        }
        _ if value.downcast_ref::<CelBytes>().is_some() => Err("bytes cannot be kept as data".to_owned()),
        _ => Err(other()),
    }
}

/// Never told: an evaluation past its budget is refused as that, whatever it says.
fn over_budget() -> String {
    "cost".to_owned()
}

/// Refuses JSON with an integer past the largest i64, as [`to_json`] does.
pub(super) fn check_integers(json: &Value) -> Result<(), String> {
    match json {
        Value::Number(number) if number.is_u64() && !number.is_i64() => Err(past_i64(number)),
        Value::Array(items) => items.iter().try_for_each(check_integers),
        Value::Object(fields) => fields.values().try_for_each(check_integers),
        _ => Ok(()),
    }
}

fn past_i64(number: impl std::fmt::Display) -> String {
    format!("{number} is past the largest i64")
}

fn timestamp(value: &CelTimestamp) -> Value {
    Value::from(value.inner().with_timezone(&Utc).to_rfc3339_opts(SecondsFormat::AutoSi, true))
}

fn duration(value: &CelDuration) -> Value {
    let (seconds, nanos) = (value.inner().num_seconds(), value.inner().subsec_nanos());
    let sign = if seconds < 0 || nanos < 0 { "-" } else { "" };
    let fraction = match nanos.unsigned_abs() {
        0 => String::new(),
        nanos => format!(".{nanos:09}").trim_end_matches('0').to_owned(),
    };
    Value::from(format!("{sign}{}{fraction}s", seconds.unsigned_abs()))
}
