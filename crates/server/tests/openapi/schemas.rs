//! The schemas of the document, and values held against them.

use std::collections::BTreeSet;

use serde_json::{Value, json};

/// A schema of the document, with all that it refers to. OpenAPI 3.1 schemas are JSON Schema 2020-12.
pub(crate) struct Schema {
    schema: Value,
    document: Value,
}

impl Schema {
    /// The schema at a JSON pointer into the document.
    pub(crate) fn at(document: &Value, pointer: &str) -> Self {
        let found = document.pointer(pointer).unwrap_or_else(|| panic!("no schema at {pointer}"));
        Self { schema: found.clone(), document: document.clone() }
    }

    /// One of the components.
    pub(crate) fn named(document: &Value, name: &str) -> Self {
        Self::at(document, &format!("/components/schemas/{name}"))
    }

    /// What is wrong with the value.
    pub(crate) fn problems(&self, value: &Value) -> Vec<String> {
        let mut schema = self.schema.clone();
        schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
        schema["components"] = self.document["components"].clone();
        let validator = jsonschema::validator_for(&schema).unwrap_or_else(|error| panic!("no schema: {error}"));
        validator.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path())).collect()
    }

    /// Panics unless the value is as the schema says, and the schema names all that is in it.
    pub(crate) fn check(&self, what: &str, value: &Value) {
        let problems = self.problems(value);
        assert!(problems.is_empty(), "{what}: {problems:#?}\n{value:#}");
        let mut unnamed = BTreeSet::new();
        self.unnamed(&self.schema, value, "", &mut unnamed);
        assert!(unnamed.is_empty(), "{what}: fields that are not documented: {unnamed:?}\n{value:#}");
    }

    /// Collects the fields of `value` that the schema does not name.
    fn unnamed(&self, schema: &Value, value: &Value, path: &str, found: &mut BTreeSet<String>) {
        let schema = self.resolve(schema);
        match value {
            Value::Object(fields) => {
                let Some(properties) = schema["properties"].as_object() else { return };
                for (name, field) in fields {
                    let path = format!("{path}/{name}");
                    match properties.get(name) {
                        Some(schema) => self.unnamed(schema, field, &path, found),
                        None => _ = found.insert(path),
                    }
                }
            }
            Value::Array(items) => {
                items.iter().for_each(|item| self.unnamed(&schema["items"], item, &format!("{path}/*"), found));
            }
            _ => {}
        }
    }

    /// Follows references, and takes the object of "that object, or null".
    fn resolve<'s>(&'s self, schema: &'s Value) -> &'s Value {
        if let Some(reference) = schema["$ref"].as_str() {
            let pointer = reference.trim_start_matches('#');
            return self.resolve(self.document.pointer(pointer).expect("a reference leads somewhere"));
        }
        let choices = schema["oneOf"].as_array().into_iter().flatten();
        match choices.filter(|choice| choice["type"] != "null").collect::<Vec<_>>()[..] {
            [one] => self.resolve(one),
            _ => schema,
        }
    }
}
