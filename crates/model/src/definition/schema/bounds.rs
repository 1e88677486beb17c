//! What a schema may consist of, so that its cost is bounded by the size of the data: every value is looked at by at most
//! [`LOOKS_MAX`] parts of it, which take at most [`SCHEMA_STEPS_PER_BYTE_MAX`] steps for each byte of it. References are
//! followed as if what they name stood in their place; so none may lead to itself, and none may multiply without bound.

use std::collections::BTreeMap;

use crate::definition::fields::{Findings, join};
use crate::definition::node::{Field, Node, Value};
use crate::definition::suggestion::hint;
use crate::limits::SCHEMA_STEPS_PER_BYTE_MAX;

use super::steps::Steps;

/// Parts of a schema that look at one and the same value. With the data's limit of 256 KiB, some 100,000 values, a check
/// stays below what writing such an instance costs.
const LOOKS_MAX: usize = 32;

/// Parts of a schema, references followed.
const PARTS_MAX: usize = 2_000;

/// Parts inside one another, references followed; the check recurses on them.
const DEPTH_MAX: usize = 64;

/// Schemas that look at the same value.
const SAME: &[&str] = &["not", "if", "then", "else"];
const SAME_LIST: &[&str] = &["allOf", "anyOf", "oneOf"];
const SAME_MAP: &[&str] = &["dependentSchemas"];
/// Schemas that look at values inside.
const INSIDE: &[&str] = &["items", "additionalProperties", "propertyNames", "contains"];
const INSIDE_LIST: &[&str] = &["prefixItems"];
const INSIDE_MAP: &[&str] = &["properties", "patternProperties"];
/// What is no schema.
const PLAIN: &[&str] = &[
    "$schema",
    "$comment",
    "$defs",
    "$ref",
    "const",
    "contentEncoding",
    "contentMediaType",
    "default",
    "definitions",
    "dependentRequired",
    "deprecated",
    "description",
    "enum",
    "examples",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "maxContains",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minContains",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "pattern",
    "readOnly",
    "required",
    "title",
    "type",
    "uniqueItems",
    "writeOnly",
];
/// What is part of JSON Schema, and not of what is known here.
const REFUSED: &[&str] = &[
    "$anchor",
    "$dynamicAnchor",
    "$dynamicRef",
    "$id",
    "$recursiveAnchor",
    "$recursiveRef",
    "$vocabulary",
    "contentSchema",
    "unevaluatedItems",
    "unevaluatedProperties",
];

/// Checks a schema.
pub(super) fn check(findings: &mut Findings<'_>, root: &Node, path: &str) -> Checked {
    let problems = findings.problems.len();
    let mut walk = Walk { findings, root, parts: 0, patterns: 0, alternatives: 0, over: false };
    walk.words(root, path);
    if walk.findings.problems.len() == problems {
        let (looks, steps) = walk.looks(&[root], VALUE_BYTES_MIN, 0);
        if !walk.over && looks > LOOKS_MAX {
            let message =
                format!("{looks} parts of the schema look at the same value; at most {LOOKS_MAX} are allowed");
            walk.findings.add(root.place, path, message, "write fewer alternatives, or `enum` for plain values");
        }
        if !walk.over && steps.per_byte > SCHEMA_STEPS_PER_BYTE_MAX {
            walk.costs_too_much(&steps, path);
        }
    }
    Checked { patterns: walk.patterns, alternatives: walk.alternatives }
}

/// What was found on the way.
pub(super) struct Checked {
    /// Patterns that it has.
    pub(super) patterns: usize,
    /// Parts that are alternatives of others.
    pub(super) alternatives: usize,
}

/// Bytes of the shortest value, with what keeps it from the next one.
const VALUE_BYTES_MIN: u64 = 2;

struct Walk<'f, 't, 'n> {
    findings: &'f mut Findings<'t>,
    root: &'n Node,
    parts: usize,
    patterns: usize,
    alternatives: usize,
    over: bool,
}

fn field<'n>(node: &'n Node, name: &str) -> Option<&'n Node> {
    match &node.value {
        Value::Map(fields) => fields.iter().find(|field| field.name == name).map(|field| &field.node),
        _ => None,
    }
}

/// The schemas in the fields `names` of `node`, the lists `lists` and the maps `maps`.
fn schemas<'n>(node: &'n Node, names: &[&str], lists: &[&str], maps: &[&str]) -> Vec<(String, &'n Node)> {
    let Value::Map(fields) = &node.value else { return Vec::new() };
    let mut found = Vec::new();
    for Field { name, node, .. } in fields {
        match &node.value {
            Value::List(items) if lists.contains(&name.as_str()) => {
                found.extend(items.iter().enumerate().map(|(at, item)| (format!("{name}[{at}]"), item)));
            }
            Value::Map(inside) if maps.contains(&name.as_str()) => {
                found.extend(inside.iter().map(|inside| (format!("{name}.{}", inside.name), &inside.node)));
            }
            _ if names.contains(&name.as_str()) => found.push((name.clone(), node)),
            _ => {}
        }
    }
    found
}

impl<'n> Walk<'_, '_, 'n> {
    /// Looks at every part as it is written: its keywords, its patterns, its references.
    fn words(&mut self, node: &'n Node, path: &str) {
        let Value::Map(fields) = &node.value else { return };
        for Field { name, place, node } in fields {
            let path = join(path, name);
            match name.as_str() {
                "$ref" => self.reference(node, &path),
                "pattern" => self.patterns += 1,
                "patternProperties" => {
                    if let Value::Map(patterns) = &node.value {
                        self.patterns += patterns.len();
                    }
                }
                "format" => {
                    let message = "`format` is a note for people: it is not checked";
                    self.findings.doubt(*place, &path, message, "write a `pattern` if it has to be kept");
                }
                _ if REFUSED.contains(&name.as_str()) => {
                    let message =
                        format!("`{name}` is not known here: what a schema costs has to be told from its text");
                    self.findings.add(
                        *place,
                        &path,
                        message,
                        "write the schema with `$defs` and `$ref: '#/$defs/NAME'`",
                    );
                }
                _ if self.findings.has_doubted_enough() => {}
                _ => self.keyword(name, *place, &path),
            }
        }
        let written = schemas(
            node,
            &[SAME, INSIDE].concat(),
            &[SAME_LIST, INSIDE_LIST].concat(),
            &[SAME_MAP, INSIDE_MAP, &["$defs", "definitions"]].concat(),
        );
        for (name, schema) in written {
            let is_alternative = name.starts_with("anyOf[") || name.starts_with("oneOf[");
            self.alternatives += usize::from(is_alternative);
            self.words(schema, &join(path, &name));
        }
    }

    fn keyword(&mut self, name: &str, place: crate::definition::Place, path: &str) {
        let known =
            || [PLAIN, SAME, SAME_LIST, SAME_MAP, INSIDE, INSIDE_LIST, INSIDE_MAP].into_iter().flatten().copied();
        if !known().any(|known| known == name) {
            let message = format!("{name:?} is no keyword of JSON Schema{}", hint(name, known()));
            self.findings.doubt(place, path, message, "it is passed over; remove it, or correct its name");
        }
    }

    fn reference(&mut self, node: &'n Node, path: &str) {
        if self.named(node).is_none() {
            let message = match &node.value {
                Value::Text(name) if name.starts_with("#/") => format!("there is no {name:?} in the schema"),
                _ => "a reference leads to a definition in the same schema".to_owned(),
            };
            self.findings.add(node.place, path, message, "write `'#/$defs/NAME'`, and the schema under `$defs`");
        }
    }

    /// The definition that a reference names.
    fn named(&self, node: &Node) -> Option<&'n Node> {
        let Value::Text(name) = &node.value else { return None };
        let (container, name) = match name.strip_prefix("#/$defs/") {
            Some(name) => ("$defs", name),
            None => ("definitions", name.strip_prefix("#/definitions/")?),
        };
        field(field(self.root, container)?, name)
    }

    /// How many parts look at the value that all of `schemas_here` look at, or at one inside of it, and how many steps they
    /// take for each of its bytes: the most. The value has `own` bytes at least, with what keeps it from the next one.
    fn looks(&mut self, schemas_here: &[&'n Node], own: u64, depth: usize) -> (usize, Steps<'n>) {
        let mut all: Vec<&'n Node> = Vec::new();
        let mut steps = Steps::default();
        let mut open: Vec<(&'n Node, usize)> = schemas_here.iter().map(|schema| (*schema, depth)).collect();
        while let Some((schema, depth)) = open.pop() {
            if self.is_over(schema, depth) {
                return (0, Steps::default());
            }
            all.push(schema);
            steps.add(Steps::of(schema, own));
            if let Some(named) = field(schema, "$ref").and_then(|reference| self.named(reference)) {
                open.push((named, depth + 1));
            }
            open.extend(schemas(schema, SAME, SAME_LIST, SAME_MAP).into_iter().map(|(_, inner)| (inner, depth + 1)));
        }
        // Those of one name look at the same value, and so do those of all names.
        let mut by_name: BTreeMap<String, Vec<&'n Node>> = BTreeMap::new();
        let mut of_all: Vec<&'n Node> = Vec::new();
        for schema in &all {
            by_name.extend_with(schemas(schema, &[], &[], &["properties"]));
            of_all.extend(schemas(schema, INSIDE, INSIDE_LIST, &["patternProperties"]).into_iter().map(|(_, s)| s));
        }
        let inside =
            if of_all.is_empty() { Default::default() } else { self.looks(&of_all, VALUE_BYTES_MIN, depth + 1) };
        let mut named = (0, Steps::default());
        for (name, schemas) in by_name {
            let key = name.len().saturating_sub("properties.".len()) as u64 + "\"\":".len() as u64;
            let (looks, steps) = self.looks(&schemas, key + VALUE_BYTES_MIN, depth + 1);
            named = (named.0.max(looks), named.1.max(steps));
        }
        let mut both = inside.1;
        both.add(named.1);
        (all.len().max(inside.0 + named.0), steps.max(both))
    }

    fn costs_too_much(&mut self, steps: &Steps<'n>, path: &str) {
        let place = steps.heaviest.map_or(self.root.place, |node| node.place);
        let message = format!(
            "a byte of data may take {} steps of the schema; at most {SCHEMA_STEPS_PER_BYTE_MAX} are allowed, and this part \
             takes most of them",
            steps.per_byte
        );
        let remedy = "count with `maxLength` and `maxItems` and not by `{1,1000}` in a pattern; write fewer values of \
                      different types into one `enum`";
        // Texts were accepted before there was such a bound.
        self.findings.judge(place, path, message, remedy);
    }

    /// Counts a part; past the bounds nothing more is counted.
    fn is_over(&mut self, schema: &Node, depth: usize) -> bool {
        self.parts += 1;
        if !self.over && (self.parts > PARTS_MAX || depth > DEPTH_MAX) {
            self.over = true;
            let message = format!(
                "the schema refers to itself, or has more than {PARTS_MAX} parts, {DEPTH_MAX} inside one another, with \
                 its references followed"
            );
            self.findings.add(schema.place, "data.schema", message, "write it without recursion, and with fewer parts");
        }
        self.over
    }
}

/// Groups by name.
trait ExtendWith<'n> {
    fn extend_with(&mut self, found: Vec<(String, &'n Node)>);
}

impl<'n> ExtendWith<'n> for BTreeMap<String, Vec<&'n Node>> {
    fn extend_with(&mut self, found: Vec<(String, &'n Node)>) {
        for (name, schema) in found {
            self.entry(name).or_default().push(schema);
        }
    }
}
