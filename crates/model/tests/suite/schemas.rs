//! What the data has to be, and what its schema tells about expressions.

use lockkeeper_model::{Action, Command, Data, Definition, Format, Refusal, Start};
use proptest::prelude::*;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{Case, actor, key_of};

/// A definition with a schema, a guard and assigns.
fn with(schema: &str, transition: &str) -> String {
    format!(
        "workflow: w\ninitial: a\ndata:\n  schema: {schema}\nstates:\n  a: {{on: {{x: {transition}, end: z}}}}\n  \
         z: {{type: final}}\n"
    )
}

const SCHEMA: &str = "{type: object, additionalProperties: false, properties: {n: {type: integer}, name: {type: [string, \
                      'null']}, list: {type: array, items: {type: object, properties: {q: {type: number}}}}, ok: {type: \
                      boolean}}}";

/// What the checker says of a guard: problems, then warnings.
fn said(schema: &str, transition: &str) -> Vec<String> {
    match Definition::read(&with(schema, transition), Format::Yaml) {
        Ok(definition) => definition.warnings().iter().map(|warning| format!("warning {}", warning.message)).collect(),
        Err(problems) => problems.iter().map(|p| format!("{}:{} {}", p.line, p.column, p.message)).collect(),
    }
}

fn guard(guard: &str) -> Vec<String> {
    said(SCHEMA, &format!("{{guard: \"{guard}\", target: z}}"))
}

#[test]
fn data_is_held_to_its_schema() {
    let schema = "{required: [n], properties: {n: {type: integer, minimum: 0}, s: {pattern: '^a+$'}}}";
    Case::new(&with(schema, "{assign: {n: data.n - event.by}}")).run(
        "ann start data={\"n\":-1} -> malformed: the data is not as the workflow's schema has it: `n`: this is less than \
         the minimum of 0\n\
         ann start -> malformed: the data is not as the workflow's schema has it: the data: \"n\" is a required property\n\
         ann start data={\"n\":1,\"s\":\"b\"} -> malformed: the data is not as the workflow's schema has it: `s`: this \
         does not match \"^a+$\"\n\
         ann start data={\"n\":3,\"s\":\"aa\"} -> started v1 a\n\
         ann x data={\"by\":2} -> applied v2 a\n\
         ann x data={\"by\":2} -> guard_error: cannot evaluate \"n: data.n - event.by\": the data after this event is not as the workflow's \
         schema has it: `n`: this is less than the minimum of 0\n\
         ann x data={\"by\":1} -> applied v3 a",
    );
}

#[test]
fn what_can_never_work_is_refused_where_it_stands() {
    for (text, expected) in [
        ("data.n > 'x'", "6:24 a number cannot be compared with a text"),
        ("data.m > 1", "6:29 the schema has no field \"m\" here; did you mean \"n\"?"),
        ("true && data.nmae == 'x'", "6:37 the schema has no field \"nmae\" here; did you mean \"name\"?"),
        ("data.n + 'x' == 'y'", "6:24 there is no `+` of a number and a text"),
        ("data.name * 2 > 1", "6:24 there is no `*` of null or a text and a number"),
        ("data.n.x == 1", "6:31 a number has no field \"x\""),
        ("data.n", "6:24 a guard yields true or false, and this yields a number"),
        ("data.ok && data.n", "6:35 an operand of `&&` and `||` is true or false, and this is a number"),
        ("data.n.startsWith('a')", "6:24 what `startsWith` looks at is a text, and this is a number"),
        ("data.list.exists(i, i.q > 'a')", "6:44 a number cannot be compared with a text"),
        ("data.n in data.ok", "6:34 what stands behind `in` is a list or a map, and this is true or false"),
        ("data.ok.all(x, x)", "6:24 true or false cannot be looped over"),
        ("now > 1", "6:24 a time cannot be compared with a number"),
    ] {
        assert_eq!(guard(text), [expected], "{text}");
    }
    assert_eq!(
        said(SCHEMA, "{assign: {n: \"data.name + 'x'\", m: 1, ok: data.n > 1, list: 'data.list + [1]', name: now}}"),
        [
            "6:29 the schema has a number in the field \"n\", and this yields a text",
            "6:50 the schema has no field \"m\" here; did you mean \"n\"?"
        ]
    );
}

#[test]
fn what_works_is_not_warned_of() {
    for text in [
        "data.n + 1 > 2.5 && data.name != null && data.list.size() > 0",
        "has(data.name) ? data.name.startsWith('a') : data.ok",
        "data.list.all(i, i.q * 2 >= data.n) && data.list.exists_one(i, i.q == 1)",
        "data.list.map(i, i.q).filter(q, q > 1).size() == 2 && 'x' in actor.roles",
        "event.anything.at[0] + 1 > data.n || event.text == data.name || data[event.field] == 1",
        "now - instance.started_at > duration('5s') && instance.version > 1 && string(data.n) == data.name",
        "timestamp(data.name) < now && data.name.matches('a') && {'a': data.n}['a'] > 1 && [1, 2][data.n] == 1",
        "type(data.n) == int && dyn(data.n) == 'x' && !data.ok && -data.n < 1 && data['n'] == 2",
    ] {
        assert_eq!(guard(text), [""; 0], "{text}");
    }
}

#[test]
fn what_is_hardly_meant_is_a_warning() {
    for (text, expected) in [
        ("data.n == 'x'", "warning a number never equals a text"),
        ("has(data.m)", "warning the schema has no field \"m\" here: it is never there"),
        ("data.list.exists(i, i.p == 1)", "warning the schema has no field \"p\" here; did you mean \"q\"?"),
    ] {
        assert_eq!(guard(text), [expected], "{text}");
    }
    // Without a schema no text is refused for it that was accepted before.
    let text = "workflow: w\ninitial: a\nstates:\n  a: {on: {x: {guard: \"1 + 'a' == event.b\", target: z}}}\n  z: {type: final}\n";
    let warned = Definition::read(text, Format::Yaml).unwrap().warnings().to_vec();
    assert_eq!(
        warned[0].to_string(),
        "4:24: states.a.on.x.guard: there is no `+` of a number and a text (`string(value)` \
        makes a text, `double(text)` a number)"
    );
    // Which fields there are is not told by every schema.
    for open in [
        "{}",
        "{additionalProperties: true, properties: {n: {}}}",
        "{anyOf: [{properties: {n: {}}}]}",
        "{properties: {n: {}}, if: {}}",
    ] {
        assert_eq!(said(open, "{guard: data.m > 1, target: z}"), [""; 0], "{open}");
    }
    assert_eq!(said("{properties: {nm: {}}}", "{guard: data.n > 1, target: z}").len(), 1, "a warning");
}

/// A schema by which nothing could ever begin.
#[test]
fn what_no_data_can_fulfil_is_refused() {
    for (schema, expected) in [
        ("{type: array}", "the data is an object"),
        ("{type: [string, 'null']}", "the data is an object"),
        ("{required: [b], properties: {a: {}}, additionalProperties: false}", "the field \"b\" is required"),
        ("{required: [a], additionalProperties: false}", "the field \"a\" is required"),
    ] {
        let found = said(schema, "{guard: event.ok, target: z}");
        assert!(found.iter().any(|found| found.contains(expected)), "{schema}: {found:?}");
    }
    for schema in [
        "{type: [object, 'null']}",
        "{required: [a], properties: {a: {}}, additionalProperties: false}",
        "{required: [b], patternProperties: {b: {}}, additionalProperties: false}",
        "{required: [b], properties: {a: {}}}",
    ] {
        assert_eq!(said(schema, "{guard: event.ok, target: z}"), [""; 0], "{schema}");
    }
    let guarded = said("{properties: {at: {type: string}}}", "{guard: now > data.at, target: z}");
    assert_eq!(guarded, ["6:23 a time cannot be compared with a text"]);
}

/// Whatever is in the data, it is a map, and no condition.
#[test]
fn data_as_a_whole_is_a_map() {
    let text = "workflow: w\ninitial: a\nstates:\n  a: {on: {x: {guard: data, target: z}}}\n  z: {type: final}\n";
    let warned = Definition::read(text, Format::Yaml).unwrap().warnings().to_vec();
    assert!(warned[0].message.contains("this yields a map"), "{}", warned[0]);
}

#[test]
fn references_and_parts_are_followed() {
    let schema = "{allOf: [{$ref: '#/$defs/a'}, {properties: {b: {type: string}}}], $defs: {a: {properties: {a: {type: integer}}}}}";
    assert_eq!(said(schema, "{guard: data.a > data.b, target: z}"), ["6:23 a number cannot be compared with a text"]);
    let either = "{properties: {v: {anyOf: [{type: string}, {type: integer}]}, e: {enum: [a, b]}}}";
    assert_eq!(said(either, "{guard: \"data.v > 1 && data.v < 'x'\", target: z}"), [""; 0]);
    assert_eq!(said(either, "{guard: data.e > 1, target: z}"), ["6:23 a text cannot be compared with a number"]);
}

#[test]
fn schemas_that_cost_too_much_or_lead_elsewhere_are_refused() {
    let many: Vec<String> = (0..40).map(|n| format!("{{const: {n}}}")).collect();
    let doubling: Vec<String> = (0..20)
        .map(|n| format!("d{n}: {{allOf: [{{$ref: '#/$defs/d{0}'}}, {{$ref: '#/$defs/d{0}'}}]}}", n + 1))
        .collect();
    let doubling = format!("{{$ref: '#/$defs/d0', $defs: {{{}, d20: {{}}}}}}", doubling.join(", "));
    for (schema, expected) in [
        ("[]", "expected a JSON schema, found a list"),
        ("{type: 7}", "not a JSON schema"),
        ("{$ref: 'https://example.org/schema'}", "a reference leads to a definition in the same schema"),
        ("{$ref: '#/$defs/x'}", "there is no \"#/$defs/x\" in the schema"),
        ("{$ref: '#/$defs/x', $defs: {x: {$ref: '#/$defs/x'}}}", "refers to itself"),
        ("{$ref: '#/$defs/x', $defs: {x: {properties: {x: {$ref: '#/$defs/x'}}}}}", "refers to itself"),
        (doubling.as_str(), "or has more than 2000 parts"),
        ("{unevaluatedProperties: false}", "`unevaluatedProperties` is not known here"),
        ("{properties: {a: {$id: 'x'}}}", "`$id` is not known here"),
        ("{$schema: 'http://json-schema.org/draft-07/schema#'}", "only JSON Schema 2020-12 is known"),
        ("{properties: {a: {pattern: '(a'}}}", "not a JSON schema"),
        ("{properties: {a: {pattern: '(?=a)b'}}}", "not a JSON schema"),
        ("{properties: {a: {pattern: '(\\\\w{100}){100}'}}}", "4:38 a byte of data may take 10100 steps"),
        ("{properties: {a: {pattern: '^(\\pL{25}){10}$'}}}", "not a JSON schema"),
        (
            &format!("{{properties: {{a: {{anyOf: [{}]}}}}}}", many.join(", ")),
            "41 parts of the schema look at the same value",
        ),
    ] {
        let found = said(schema, "z");
        assert!(found.iter().any(|said| said.contains(expected)), "{schema}\n{found:?}");
    }
    assert_eq!(said("{propertees: {}, format: date}", "z").len(), 2, "two warnings");
    let text = "workflow: w\ninitial: a\ndata: {shape: {}}\nstates: {a: {on: {x: z}}, z: {type: final}}\n";
    let problems = Definition::read(text, Format::Yaml).unwrap_err();
    assert!(problems[0].message.contains("unknown field \"shape\""), "{problems:?}");
}

/// What a byte of data costs is told from the sizes of patterns and lists, too.
#[test]
fn schemas_are_priced_by_what_is_in_them() {
    let numbers = |count: usize| (0..count).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
    let texts = (0..5_000).map(|n| format!("t{n}")).collect::<Vec<_>>().join(", ");
    let pairs = (0..600).map(|n| format!("a{n}: [b]")).collect::<Vec<_>>().join(", ");
    let counted = "{pattern: '[a-z]{1,200}$'}";
    for (schema, expected) in [
        ("{properties: {a: {pattern: '[a-z]{1,600}$'}}}".to_owned(), "4:38 a byte of data may take 600 steps"),
        (
            format!("{{properties: {{a: {{items: {{enum: [{}]}}}}}}}}", numbers(1_200)),
            "a byte of data may take 600 steps",
        ),
        (format!("{{items: {{dependentRequired: {{{pairs}}}}}}}"), "a byte of data may take 600 steps"),
        (format!("{{additionalProperties: {{allOf: [{counted}, {counted}, {counted}]}}}}"), "may take 600 steps"),
        (
            format!(
                "{{properties: {{a: {{$ref: '#/$defs/p'}}}}, additionalProperties: {counted}, $defs: {{p: {{allOf: [{counted}, {counted}]}}}}}}"
            ),
            "may take 600 steps",
        ),
    ] {
        let found = said(&schema, "z");
        assert!(found.len() == 1 && found[0].contains(expected), "{schema}\n{found:?}");
        let accepted = Definition::read_accepted(&with(&schema, "z"), Format::Yaml).unwrap();
        assert!(accepted.warnings()[0].message.contains("of the schema"), "{:?}", accepted.warnings());
    }
    for schema in [
        "{properties: {a: {pattern: '[a-z]{1,500}$'}, b: {pattern: '[a-z]{1,500}$'}}}".to_owned(),
        "{properties: {mail: {pattern: '^[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9.-]{1,255}$'}}}".to_owned(),
        "{properties: {note: {pattern: '^[ -~]{1,2000}$'}}}".to_owned(),
        format!(
            "{{properties: {{currency: {{pattern: '^({})$'}}}}}}",
            (100..400).map(|n| format!("C{n}")).collect::<Vec<_>>().join("|")
        ),
        format!("{{items: {{enum: [{texts}]}}}}"),
        format!("{{properties: {{country: {{enum: [{}]}}}}}}", numbers(2_000)),
        format!("{{required: [{texts}]}}"),
    ] {
        assert_eq!(said(&schema, "z"), [""; 0], "{schema}");
    }
}

/// However much is wrong with however much data: what is said of it is short, and is said at once.
#[test]
fn what_is_wrong_is_told_in_few_words() {
    let start = |schema: &str, data: Value| {
        let mut case = Case::new(&with(schema, "z"));
        let Value::Object(data) = data else { panic!("no object") };
        let action = Action::Start(Start { data, ..Start::default() });
        let command = Command { instance: key_of("w"), action, actor: actor("ann"), idempotency_key: None };
        match case.judge(&command) {
            Err(Refusal::Malformed { detail }) => detail,
            other => panic!("{other:?}"),
        }
    };
    let texts = (0..5_000).map(|n| format!("t{n}")).collect::<Vec<_>>().join(", ");
    let detail = start(&format!("{{properties: {{a: {{enum: [{texts}]}}}}}}"), json!({ "a": "x" }));
    assert!(detail.contains("`a`: this is not one of") && detail.len() < 1_200, "{} bytes: {detail}", detail.len());
    let either = (0..30).map(|n| format!("{{items: {{const: {n}}}}}")).collect::<Vec<_>>().join(", ");
    let schema = format!("{{properties: {{a: {{anyOf: [{either}]}}}}}}");
    let detail = start(&schema, json!({ "a": [-1, -2] }));
    assert!(detail.contains("`a`: this is not valid under any of the schemas"), "{detail}");
    let detail = start(&schema, json!({ "a": vec![-1; 60_000] }));
    assert!(detail.contains("there is too much of it to say where"), "{detail}");
}

/// A later checker finds more; texts that it would refuse now are still obeyed.
#[test]
fn what_was_accepted_is_read_again() {
    let text = with(SCHEMA, "{guard: data.n > 'x', target: z}");
    assert!(Definition::read(&text, Format::Yaml).is_err());
    let accepted = Definition::read_accepted(&text, Format::Yaml).unwrap();
    assert_eq!(accepted.warnings()[0].message, "a number cannot be compared with a text");
    assert!(Definition::read_accepted("workflow: w", Format::Yaml).is_err(), "no machine at all");
}

const KEYWORDS: &[&str] = &[
    "type",
    "properties",
    "items",
    "required",
    "additionalProperties",
    "enum",
    "const",
    "anyOf",
    "allOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "$ref",
    "$defs",
    "a",
    "b",
    "minimum",
    "maxLength",
    "pattern",
    "multipleOf",
    "uniqueItems",
    "contains",
    "minContains",
    "prefixItems",
    "propertyNames",
    "patternProperties",
    "dependentSchemas",
    "dependentRequired",
    "format",
    "$schema",
    "$comment",
];
const VALUES: &[&str] = &[
    "object",
    "array",
    "string",
    "integer",
    "number",
    "null",
    "#/$defs/a",
    "#/$defs/b",
    "#",
    "^a+$",
    "(",
    "date",
    "a",
    "b",
    "",
    "https://json-schema.org/draft/2020-12/schema",
];

/// Something like a schema.
fn schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        4 => prop::sample::select(VALUES).prop_map(Value::from),
        2 => (-3..4_i64).prop_map(Value::from),
        1 => Just(json!(0.5)),
        1 => any::<bool>().prop_map(Value::from),
        1 => Just(Value::Null),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            3 => prop::collection::btree_map(prop::sample::select(KEYWORDS).prop_map(str::to_owned), inner.clone(), 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            1 => prop::collection::vec(inner, 0..4).prop_map(Value::Array),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_schema_is_kept_or_refused(schema in schema(), data in schema()) {
        let text = json!({
            "workflow": "w", "initial": "a", "data": {"schema": schema},
            "states": {
                "a": {"on": {"x": {"guard": "data.a == data.b", "assign": {"a": "event", "b": "data.a + data.b"}}, "y": "z"}},
                "z": {"type": "final"}
            }
        });
        match Definition::read(&text.to_string(), Format::Json) {
            Ok(_) => {
                let mut case = Case::new(&text.to_string());
                let data = match data {
                    Value::Object(fields) => fields,
                    other => Data::from_iter([("a".to_owned(), other)]),
                };
                let start = Action::Start(Start { run: Uuid::nil(), data, ..Start::default() });
                let command = Command {
                    instance: key_of("w"), action: start, actor: actor("ann"), idempotency_key: None,
                };
                let started = case.judge(&command);
                prop_assert!(matches!(started, Ok(_) | Err(Refusal::Malformed { .. } | Refusal::GuardError { .. })), "{started:?}");
            }
            Err(problems) => prop_assert!(!problems.is_empty() && problems.iter().all(|problem| problem.line == 1)),
        }
    }
}
