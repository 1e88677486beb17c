//! What a schema says of the kinds of values: never more than is certain.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value as Json;

use crate::expression::kinds::{Fields, Kinds, Others, Type};

/// Keywords by which a map may have fields that its `properties` do not name.
const OPENS: &[&str] =
    &["patternProperties", "if", "then", "else", "dependentSchemas", "not", "anyOf", "oneOf", "propertyNames"];

/// The data of an instance, which is an object whatever else is said.
pub(super) fn of_data(schema: &Json) -> Type {
    let found = of(schema, schema);
    Type { kinds: Kinds::MAP, item: None, fields: found.fields }
}

/// What `schema` allows; `root` is where its references lead. They end: that was checked.
fn of(schema: &Json, root: &Json) -> Type {
    let Some(fields) = schema.as_object() else { return Type::of(Kinds::JSON) };
    let mut found = Type::of(own_kinds(fields));
    if found.kinds.meets(Kinds::LIST) && !fields.contains_key("prefixItems") {
        found.item = fields.get("items").map(|items| Arc::new(of(items, root)));
    }
    found.fields = own_fields(fields, root).map(Arc::new);
    if let Some(named) =
        fields.get("$ref").and_then(Json::as_str).and_then(|name| root.pointer(name.trim_start_matches('#')))
    {
        found = both(found, of(named, root));
    }
    for part in fields.get("allOf").and_then(Json::as_array).into_iter().flatten() {
        found = both(found, of(part, root));
    }
    for name in ["anyOf", "oneOf"] {
        let parts = fields.get(name).and_then(Json::as_array).into_iter().flatten().map(|part| of(part, root));
        if let Some(either) = parts.reduce(Type::or) {
            found = both(found, either);
        }
    }
    found
}

fn own_kinds(fields: &serde_json::Map<String, Json>) -> Kinds {
    let named = |name: &str| match name {
        "null" => Kinds::NULL,
        "boolean" => Kinds::BOOL,
        "number" | "integer" => Kinds::NUMBER,
        "string" => Kinds::TEXT,
        "array" => Kinds::LIST,
        "object" => Kinds::MAP,
        _ => Kinds::JSON,
    };
    let by_type = match fields.get("type") {
        Some(Json::String(name)) => named(name),
        Some(Json::Array(names)) => {
            names.iter().filter_map(Json::as_str).map(named).fold(Kinds::NONE, |kinds, kind| kinds | kind)
        }
        _ => Kinds::JSON,
    };
    let by_value = match (fields.get("const"), fields.get("enum").and_then(Json::as_array)) {
        (Some(value), _) => kind(value),
        (None, Some(values)) => values.iter().map(kind).fold(Kinds::NONE, |kinds, kind| kinds | kind),
        (None, None) => Kinds::JSON,
    };
    certain(by_type & by_value)
}

fn own_fields(fields: &serde_json::Map<String, Json>, root: &Json) -> Option<Fields> {
    let properties = fields.get("properties").and_then(Json::as_object);
    let others = match fields.get("additionalProperties") {
        Some(Json::Bool(false)) if !fields.contains_key("patternProperties") => Others::None,
        _ if OPENS.iter().any(|name| fields.contains_key(*name)) => Others::Any,
        Some(Json::Bool(true) | Json::Object(_)) => Others::Any,
        _ if properties.is_some() => Others::Unlisted,
        _ => return None,
    };
    let known = properties.into_iter().flatten().map(|(name, schema)| (name.clone(), of(schema, root)));
    Some(Fields { known: known.collect::<BTreeMap<_, _>>(), others })
}

/// A value that is allowed by both.
fn both(first: Type, second: Type) -> Type {
    let fields = match (first.fields, second.fields) {
        (Some(a), Some(b)) => {
            let mut known = b.known.clone();
            known.extend(a.known.iter().map(|(name, found)| (name.clone(), found.clone())));
            let others = match (a.others, b.others) {
                (Others::Any, _) | (_, Others::Any) => Others::Any,
                // Each refuses what the other names: the union is no more than the names that may be there.
                (Others::None, Others::None) => Others::None,
                _ => Others::Unlisted,
            };
            Some(Arc::new(Fields { known, others }))
        }
        (fields, None) | (None, fields) => fields,
    };
    Type { kinds: certain(first.kinds & second.kinds), item: first.item.or(second.item), fields }
}

/// A schema that allows nothing says nothing of what is there.
fn certain(kinds: Kinds) -> Kinds {
    if kinds == Kinds::NONE { Kinds::JSON } else { kinds }
}

fn kind(value: &Json) -> Kinds {
    match value {
        Json::Null => Kinds::NULL,
        Json::Bool(_) => Kinds::BOOL,
        Json::Number(_) => Kinds::NUMBER,
        Json::String(_) => Kinds::TEXT,
        Json::Array(_) => Kinds::LIST,
        Json::Object(_) => Kinds::MAP,
    }
}
