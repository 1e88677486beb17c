//! What the data of an instance has to be: JSON Schema 2020-12 (<https://json-schema.org/draft/2020-12>), as much of it as
//! is bounded in what it costs and needs nothing from elsewhere.
//!
//! It is checked under a decision, so its cost has to be known when it is put: each value is looked at by so many parts of
//! the schema at most ([`bounds`]), patterns are matched in linear time, and nothing refers to itself.

mod bounds;
mod steps;
mod types;

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::Value as Json;

use super::fields::{Findings, cut, join};
use super::node::{Field, Node, Value};
use super::suggestion::hint;
use crate::Data;
use crate::expression::kinds::Type;
use crate::limits::PATTERNS_MAX;

/// The dialect, as `$schema` names it.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Bytes of a compiled pattern: definitions stay in memory.
const PATTERN_BYTES_MAX: usize = 128 * 1024;

/// Reasons that may have to be found to say which alternative does not fit why: each is kept, with the value.
const REASONS_MAX: usize = 100_000;

/// Bytes of what is said to be wrong: a schema's `enum` may be as long as the text.
const REASON_BYTES_MAX: usize = 1_000;

/// What the data has to be.
#[derive(Debug)]
pub(crate) struct DataSchema {
    validator: Validator,
    data: Type,
    /// Parts that are alternatives of others: where none fits, it is said for each value why.
    alternatives: usize,
}

impl DataSchema {
    /// What the data may be, as far as expressions are concerned.
    pub(crate) fn data_type(&self) -> &Type {
        &self.data
    }

    /// Gives the data back if it is as it has to be.
    ///
    /// # Errors
    /// What is wrong with it, without its values.
    pub(crate) fn check(&self, data: Data) -> Result<Data, String> {
        let value = Json::Object(data);
        let is_right = self.validator.is_valid(&value);
        let wrong = if is_right { String::new() } else { self.wrong(&value) };
        match value {
            Json::Object(data) if is_right => Ok(data),
            _ => Err(wrong),
        }
    }

    /// What is wrong with the data.
    fn wrong(&self, value: &Json) -> String {
        if self.alternatives > 0 && self.alternatives.saturating_mul(values(value)) > REASONS_MAX {
            return "the data: none of the alternatives of an `anyOf` or `oneOf` fits, or something else is wrong; there is too \
                    much of it to say where"
                .to_owned();
        }
        let Err(error) = self.validator.validate(value) else { return String::new() };
        let place = error.instance_path().to_string();
        let of = if place.is_empty() { "the data".to_owned() } else { format!("`{}`", shown(&place)) };
        let said = format!("{of}: {}", error.masked_with("this"));
        let (said, rest) = cut(&said, REASON_BYTES_MAX);
        format!("{said}{rest}")
    }
}

/// The values in a value, itself included.
fn values(value: &Json) -> usize {
    let inside = match value {
        Json::Array(items) => items.iter().map(values).sum(),
        Json::Object(fields) => fields.values().map(values).sum(),
        _ => 0,
    };
    inside + 1
}

/// A JSON pointer as a path: `items/0/name` as `items[0].name`.
fn shown(pointer: &str) -> String {
    let mut path = String::new();
    for part in pointer.split('/').skip(1) {
        let name = part.replace("~1", "/").replace("~0", "~");
        match name.parse::<usize>() {
            Ok(at) => path.push_str(&format!("[{at}]")),
            Err(_) => path = join(&path, &name),
        }
    }
    path
}

impl Findings<'_> {
    /// The block `data`.
    pub(super) fn data(&mut self, node: &Node) -> Option<DataSchema> {
        let fields = self.block(node, "data", &["schema"]);
        let schema = fields.first()?;
        self.schema(&schema.node)
    }

    fn schema(&mut self, node: &Node) -> Option<DataSchema> {
        const PATH: &str = "data.schema";
        let Value::Map(fields) = &node.value else {
            let message = format!("expected a JSON schema, found {}", node.value.kind());
            self.add(node.place, PATH, message, "write `{type: object, properties: {...}}`");
            return None;
        };
        if let Some(field) = fields.iter().find(|field| field.name == "$schema")
            && field.node.value != Value::Text(DIALECT.to_owned())
        {
            let message = "only JSON Schema 2020-12 is known";
            self.add(field.place, &join(PATH, "$schema"), message, format!("write {DIALECT:?}, or remove the field"));
        }
        let problems = self.problems.len();
        let checked = bounds::check(self, node, PATH);
        self.patterns += checked.patterns;
        if self.patterns > PATTERNS_MAX {
            let message = format!("more than {PATTERNS_MAX} regular expressions in one definition");
            self.add(node.place, PATH, message, "use `enum`, `const` or `minLength` where that will do");
        }
        if self.problems.len() > problems {
            return None;
        }
        self.check_satisfiable(fields, PATH);
        let value = json(node);
        let data = types::of_data(&value);
        let options = jsonschema::options()
            .with_draft(Draft::Draft202012)
            .offline()
            .should_validate_formats(false)
            .with_pattern_options(PatternOptions::regex().size_limit(PATTERN_BYTES_MAX));
        match options.build(&value) {
            Ok(validator) => Some(DataSchema { validator, data, alternatives: checked.alternatives }),
            Err(error) => {
                let pointer = error.instance_path().to_string();
                let (place, path) = at(node, &pointer);
                let message = format!("not a JSON schema: {}", error.masked_with("this"));
                self.add(place.place, join(PATH, &path).trim_end_matches('.'), message, "correct the schema");
                None
            }
        }
    }
}

impl Findings<'_> {
    /// Finds what no data could ever fulfil, as far as it shows in the schema's own fields.
    fn check_satisfiable(&mut self, fields: &[Field], path: &str) {
        let get = |name: &str| fields.iter().find(|field| field.name == name);
        let is_object = |node: &Node| node.value == Value::Text("object".to_owned());
        if let Some(Field { place, node, .. }) = get("type") {
            let allows = match &node.value {
                Value::List(kinds) => kinds.iter().any(is_object),
                _ => is_object(node),
            };
            if !allows {
                let message = "the data is an object: no start could have data of another type";
                self.judge(*place, &join(path, "type"), message, "write `type: object`, and the field in `properties`");
            }
        }
        let is_closed = get("additionalProperties").is_some_and(|field| field.node.value == Value::Bool(false));
        if !is_closed || get("patternProperties").is_some() {
            return;
        }
        let known: Vec<&str> = match get("properties").map(|field| &field.node.value) {
            Some(Value::Map(known)) => known.iter().map(|field| field.name.as_str()).collect(),
            _ => Vec::new(),
        };
        let Some(Value::List(required)) = get("required").map(|field| &field.node.value) else { return };
        for item in required {
            if let Value::Text(name) = &item.value
                && !known.contains(&name.as_str())
            {
                let message = format!(
                    "the field {name:?} is required, and `additionalProperties: false` forbids it: no start could have such data{}",
                    hint(name, known.iter().copied())
                );
                self.judge(
                    item.place,
                    &join(path, "required"),
                    message,
                    "add it to `properties`, or do not require it",
                );
            }
        }
    }
}

/// The part of `node` that a JSON pointer leads to, as far as it leads, and its path.
fn at<'n>(mut node: &'n Node, pointer: &str) -> (&'n Node, String) {
    let mut path = String::new();
    for part in pointer.split('/').skip(1) {
        let name = part.replace("~1", "/").replace("~0", "~");
        let next = match &node.value {
            Value::Map(fields) => fields.iter().find(|field| field.name == name).map(|field| &field.node),
            Value::List(items) => name.parse::<usize>().ok().and_then(|at| items.get(at)),
            _ => None,
        };
        let Some(next) = next else { break };
        (node, path) = (next, join(&path, &name));
    }
    (node, path)
}

/// A part of the text as JSON.
fn json(node: &Node) -> Json {
    match &node.value {
        Value::Null => Json::Null,
        Value::Bool(value) => Json::from(*value),
        Value::Int(value) => Json::from(*value),
        Value::Float(value) => Json::from(*value),
        Value::Text(text) => Json::from(text.as_str()),
        Value::List(items) => items.iter().map(json).collect(),
        Value::Map(fields) => {
            Json::Object(fields.iter().map(|field| (field.name.clone(), json(&field.node))).collect())
        }
    }
}
