//! What expressions mean, what they cost, and what they may not do to the stack.

use serde_json::{Value, json};
use uuid::Uuid;

use super::*;
use crate::instance::{Entered, Status};

/// Something to evaluate against.
struct World {
    data: Data,
    event: Data,
    actor: Actor,
    instance: Instance,
    now: Timestamp,
}

impl World {
    fn new(data: Value, event: Value) -> Self {
        let (Value::Object(data), Value::Object(event)) = (data, event) else { panic!("objects are needed") };
        let at = |seconds| Timestamp::from_timestamp(seconds, 0).unwrap();
        let instance = Instance {
            version: 7,
            run: Uuid::nil(),
            definition_version: 1,
            state: "review".to_owned(),
            status: Status::Running,
            data: Arc::new(Data::new()),
            started_by: "ann".to_owned(),
            started_at: at(1_700_000_000),
            updated_at: at(1_700_000_000),
            entered: Entered { event: None, from: None, decided_on: 6, at: None },
            votes: Vec::new(),
            delegations: Vec::new(),
            additions: Vec::new(),
            path: Vec::new(),
            path_known: true,
            undo: None,
            timers: Vec::new(),
            fired: Vec::new(),
            deadline: None,
            request_id: None,
        };
        let actor = Actor::new("bob", ["finance".to_owned(), "admin".to_owned()], false).unwrap();
        Self { data, event, actor, instance, now: at(1_700_003_600) }
    }

    fn scope(&self) -> Scope<'_> {
        let Self { data, event, actor, instance, now } = self;
        Scope { data, event, actor, id: "po-1", instance, now: *now }
    }

    fn evaluate(&self, text: &str) -> Result<Value, String> {
        let expression = Expression::compile(text).unwrap_or_else(|faults| panic!("{text}: {faults:?}"));
        let result = alone(&expression, &self.scope());
        assert_eq!(result, alone(&expression, &self.scope()), "{text}: the same twice");
        result
    }
}

fn ordinary() -> World {
    World::new(
        json!({
            "n": 5, "big": i64::MAX, "past": u64::MAX, "half": 0.5, "name": "Ünïcode", "on": true, "nil": null,
            "items": [{"sku": "a", "qty": 2}, {"sku": "b", "qty": 3}],
            "map": {"b": 1, "a": {"deep": {"er": [1, 2, {"x": "y"}]}}},
            "same": {"b": 1, "a": {"deep": {"er": [1, 2, {"x": "y"}]}}},
            "due": "2023-11-14T22:13:20Z",
        }),
        json!({"quantity": 3, "tags": ["x", "y"]}),
    )
}

#[test]
fn expressions_mean_what_cel_says() {
    let world = ordinary();
    for (text, expected) in [
        ("data.n + event.quantity", json!(8)),
        ("data.n - 7", json!(-2)),
        ("data.big", json!(i64::MAX)),
        ("data.half * 3.0", json!(1.5)),
        ("data.name + '!'", json!("Ünïcode!")),
        ("size(data.name)", json!(7)),
        ("data.nil == null", json!(true)),
        ("data.n == 5.0", json!(true)),
        ("has(data.n) && !has(data.missing)", json!(true)),
        ("has(data.map.a) && !has(data.map.z)", json!(true)),
        ("data.map.a.deep.er[2].x", json!("y")),
        ("data['map']['a'].deep.er.size()", json!(3)),
        ("data.map == data.same && data.same == data.map", json!(true)),
        ("data.items[0] == {'sku': 'a', 'qty': 2}", json!(true)),
        ("{'sku': 'a', 'qty': 2} == data.items[0]", json!(true)),
        ("{'sku': 'a', 'qty': 2} in data.items", json!(true)),
        ("data.items[1] in [data.items[0], data.items[1]]", json!(true)),
        ("['x', 'y'] == event.tags && event.tags == ['x', 'y']", json!(true)),
        ("'x' in event.tags && !('z' in event.tags)", json!(true)),
        ("'a' in data.map && !('z' in data.map) && !(1 in data.map)", json!(true)),
        ("data.items.all(i, i.qty > 1)", json!(true)),
        ("data.items.exists(i, i.sku == 'b')", json!(true)),
        ("data.items.exists_one(i, i.qty > 2)", json!(true)),
        ("data.items.filter(i, i.qty > 2)", json!([{"sku": "b", "qty": 3}])),
        ("data.items.map(i, i.qty * 2)", json!([4, 6])),
        ("data.items.map(i, i.qty > 2, i.sku)", json!(["b"])),
        ("data.map.map(k, k)", json!(["a", "b"])),
        ("{'z': 1, 'y': 2, 'x': 3}.map(k, k)", json!(["x", "y", "z"])),
        ("event.tags + ['z']", json!(["x", "y", "z"])),
        ("[event.tags, event.tags].map(t, t + t)", json!([["x", "y", "x", "y"], ["x", "y", "x", "y"]])),
        (
            "{'copy': data.map, 'n': data.n}",
            json!({"copy": {"b": 1, "a": {"deep": {"er": [1, 2, {"x": "y"}]}}}, "n": 5}),
        ),
        ("data.items", json!([{"sku": "a", "qty": 2}, {"sku": "b", "qty": 3}])),
        ("size(data) > 5 && data.size() == size(data)", json!(true)),
        ("event", json!({"quantity": 3, "tags": ["x", "y"]})),
        ("actor.id != instance.started_by", json!(true)),
        ("'finance' in actor.roles", json!(true)),
        ("actor", json!({"id": "bob", "roles": ["admin", "finance"]})),
        ("instance.id + '/' + instance.state", json!("po-1/review")),
        ("instance.version", json!(7)),
        ("now - instance.started_at", json!("3600s")),
        ("now - instance.started_at >= duration('1h')", json!(true)),
        ("instance.started_at + duration('1500ms')", json!("2023-11-14T22:13:21.500Z")),
        ("duration('-1500ms')", json!("-1.5s")),
        ("timestamp(data.due) < now", json!(true)),
        ("now.getFullYear() == 2023 && now.getHours() == 23", json!(true)),
        ("5u", json!(5)),
        ("uint(data.n)", json!(5)),
        ("data.past > 5", json!(true)),
        ("true || data.missing", json!(true)),
        ("data.missing || true", json!(true)),
        ("false && data.missing", json!(false)),
        ("data.on ? 'yes' : 'no'", json!("yes")),
        ("type(data.n) == int && type(data.name) == string && type(data.items) == list", json!(true)),
        ("data.name.matches('^[^0-9]+$') && matches(data.name, 'code')", json!(true)),
        ("data.name.startsWith('Ü') && data.name.endsWith('code') && data.name.contains('nï')", json!(true)),
        ("string(data.n) + string(data.half)", json!("50.5")),
        ("int('42') + int(data.half)", json!(42)),
        ("-data.n", json!(-5)),
        ("data.n % 3 == 2 && data.n / 2 == 2", json!(true)),
        ("// why\ndata.n == 5", json!(true)),
    ] {
        assert_eq!(world.evaluate(text), Ok(expected), "{text}");
    }
}

#[test]
fn what_cannot_be_evaluated_is_an_error_and_says_why() {
    let world = ordinary();
    for (text, expected) in [
        ("data.big + 1", "integer overflow in add"),
        ("data.big * 2", "integer overflow in mul"),
        ("-data.big - 2", "integer overflow in sub"),
        ("data.missing == 1", "there is no field \"missing\""),
        ("data.map.missing", "there is no field \"missing\""),
        ("event.items[0]", "there is no field \"items\""),
        ("data.items[9]", "the index is past the end of the list"),
        ("data.n + data.name", "cannot add int and string"),
        ("data.n + 1.0", "cannot add int and float"),
        ("data.n / 0", "division by zero"),
        ("data.n % 0", "remainder by zero"),
        ("data.n.x + 1", "found no matching overload for '_._'"),
        ("data.name > data.n", "found no matching overload for '_>_'"),
        ("data.name.x", "a text has no field \"x\""),
        ("data.missing.x", "there is no field \"missing\""),
        ("data", "18446744073709551615 is past the largest i64"),
        ("[data.past]", "18446744073709551615 is past the largest i64"),
        ("data.past", "18446744073709551615 is past the largest i64"),
        ("1.0 / 0.0", "inf is no finite number"),
        ("b'abc'", "bytes cannot be kept as data"),
        ("type(1)", "a value of type type cannot be kept as data"),
        ("{1: 2}", "only texts can be keys of data"),
        ("{'a': 1, 'a': 2}", "a map has the same key twice"),
        ("int('x')", "int"),
        ("timestamp('soon')", "timestamp"),
        ("duration('9999999999999999999h')", "duration"),
        ("data.n.all(x, true)", "iterable"),
        ("data.n && true", "found no matching overload"),
    ] {
        let error = world.evaluate(text).expect_err(text);
        assert!(error.contains(expected), "{text}: {error}");
    }
    let guard = Expression::compile("data.n").unwrap();
    assert_eq!(guard.holds(&world.scope()), Err("a guard yields true or false, not a number".to_owned()));
}

#[test]
fn faults_are_found_before_anything_runs() {
    for (text, offset, message) in [
        ("data.x >> 1", 8, "not CEL"),
        ("a +", 3, "not CEL"),
        ("'ü' == é", 8, "not CEL: unexpected character"),
        ("data.n == 1\n  && 'abc", 17, "unterminated string"),
        ("data.n and true", 7, "unexpected 'and'"),
        ("data.n = 1", 7, "unexpected '='"),
        ("amount > 5", 0, "unknown variable \"amount\""),
        ("data.ok && evnt.x > 5", 11, "unknown variable \"evnt\"; did you mean \"event\"?"),
        ("actor.name == 'x'", 6, "`actor` has no field \"name\""),
        ("instance.startedby == 'x'", 9, "did you mean \"started_by\"?"),
        ("now.x", 4, "`now` has no field \"x\""),
        ("data.name.lowercase()", 10, "unknown function \"lowercase\""),
        ("sizeof(data.name)", 0, "unknown function \"sizeof\"; did you mean \"size\"?"),
        ("data.items.all(x)", 11, "`all` is used wrongly"),
        ("has(data)", 4, "invalid argument to has() macro"),
        ("contains(data.name, 'x')", 0, "`contains` is a method"),
        ("data.n.int()", 7, "`int` is no method"),
        ("data.name.matches(event.pattern)", 10, "the pattern of `matches` is computed"),
        ("data.name.matches('(')", 10, "the pattern of `matches` is not usable"),
        ("data.name.matches('(\\\\w{50}){50}')", 10, "the pattern of `matches` is not usable"),
        ("data.items.all(event, true)", 15, "hides a variable"),
        ("data.a.all(x, x.b.all(y, y.c.all(z, z)))", 0, "more than 2 loops"),
        ("Money{amount: 1}", 0, "there is no message type"),
        ("optional.of(1)", 0, "unknown variable \"optional\""),
        ("data.?x", 4, "unsupported syntax"),
        ("99999999999999999999", 0, "invalid int literal"),
    ] {
        let faults = Expression::compile(text).expect_err(text);
        assert_eq!(faults[0].offset, offset, "{text}: {faults:?}");
        assert!(faults[0].message.contains(message), "{text}: {faults:?}");
        assert!(!faults[0].remedy.is_empty(), "{text}");
    }
    let both = Expression::compile("amount > 5 && lmit > 5").unwrap_err();
    assert_eq!(both.iter().map(|f| f.offset).collect::<Vec<_>>(), [0, 14]);
}

/// Data of nearly the largest size allowed.
fn large() -> World {
    let lines: Vec<Value> = (0..3_000)
        .map(|n| json!({"sku": format!("sku-{n:08}"), "qty": n, "price": 1.5, "note": "x".repeat(20)}))
        .collect();
    World::new(json!({"kind": "order", "total": 17, "lines": lines}), json!({"text": "y".repeat(200_000), "n": 3}))
}

#[test]
fn ordinary_guards_pass_on_large_data() {
    let world = large();
    for (text, expected) in [
        ("data.kind == 'order' && data.total > event.n", json!(true)),
        ("data.lines.size() > 10", json!(true)),
        ("data.lines[2999].sku == 'sku-00002999'", json!(true)),
        ("data.lines.exists(l, l.qty == 3)", json!(false)),
        ("event.text.startsWith('yyy') && size(event.text) == 200000", json!(true)),
        ("data.kind.matches('^[a-z]+$')", json!(true)),
    ] {
        let result = world.evaluate(text);
        if text.contains("exists") {
            assert_eq!(result.as_ref().err().map(|e| &e[..4]), Some("cost"), "{text}: {result:?}");
        } else {
            assert_eq!(result, Ok(expected), "{text}");
        }
    }
}

#[test]
fn what_costs_too_much_is_refused_before_it_is_done() {
    let world = large();
    let squared = "data.lines.all(a, data.lines.exists(b, b.sku == a.sku))";
    let doubled_text = format!("[event.text]{}", ".map(a, a + a)".repeat(14));
    let doubled_list = format!("[data.lines]{}", ".map(a, [a, a])".repeat(14));
    let doubled_map = format!("[1]{}.size() > 0", ".map(a, {'a': a, 'b': a})".repeat(14));
    let long_sum = vec!["event.text"; 20].join(" + ");
    let copies = "data.lines.map(l, data.lines.map(m, m))";
    let compared = "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16].all(n, event.text + '' == event.text)";
    let matched = format!("{}.all(n, event.text.matches('^y'))", "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]");
    let numbers = "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]";
    let repeated = format!("{numbers}.map(n, event.text)");
    let keys = format!("{numbers}.map(n, {{event.text: {numbers}.map(m, {{event.text: m}})}}).size() > 0");
    let disguised = format!("[event.text]{}", ".map(string, string + string)".repeat(14));
    let hidden = "data.lines.exists(a, data.lines.all(b, b.sku != a.sku)) || true";
    for text in [
        squared,
        &doubled_text,
        &doubled_list,
        &doubled_map,
        &long_sum,
        copies,
        compared,
        &matched,
        &repeated,
        &keys,
        &disguised,
        hidden,
    ] {
        let expression = Expression::compile(text).unwrap_or_else(|faults| panic!("{text}: {faults:?}"));
        let error = alone(&expression, &world.scope()).expect_err(text);
        assert!(error.starts_with("cost: "), "{text}: {error}");
    }
    assert_eq!(world.evaluate("data.total"), Ok(json!(17)), "the next evaluation has its own budget");
}

/// One byte of text may be in any of a thousand places of a pattern, and takes a step for each.
#[test]
fn a_pattern_costs_as_much_as_it_has_places() {
    let world = World::new(json!({}), json!({"text": "xy".repeat(20_000)}));
    assert_eq!(world.evaluate("event.text.matches('^[xy]+$')"), Ok(json!(true)));
    let counted = world.evaluate("event.text.matches('[xy]*x[xy]{1000}$')").unwrap_err();
    assert!(counted.starts_with("cost: "), "{counted}");
}

/// Runs on a stack as small as a worker's, most of which is taken already.
fn on_small_stack(run: impl FnOnce() + Send + 'static) {
    const STACK_BYTES: usize = 1_536 * 1024;
    std::thread::Builder::new().stack_size(STACK_BYTES).spawn(run).unwrap().join().unwrap();
}

#[test]
fn the_deepest_expression_fits_a_workers_stack() {
    let (brackets, tree) = (crate::limits::EXPRESSION_DEPTH_MAX, 40);
    let chain = |step: &str, end: &str, n: usize| step.repeat(n) + end;
    let around = |open: &str, inner: &str, close: &str, n: usize| open.repeat(n) + inner + &close.repeat(n);
    let mut texts = Vec::new();
    for n in (1..=brackets).rev() {
        texts.push(around("(", "1", ")", n));
        texts.push(around("[", "1", "]", n));
        texts.push(around("{'a':", "1", "}", n));
        texts.push(around("size(", "''", ")", n));
        texts.push(around("[[1].map(x,", "x", ")]", n / 2));
        texts.push(around("(true ? ", "1", " : 2)", n));
        texts.push(around("-(", "1", ")", n));
        texts.push(around("[1].all(x, ", "true", ")", n.min(2)));
    }
    for n in (1..=tree).rev().chain([200, 400, 600]) {
        texts.push(chain("1+", "1", n));
        texts.push(chain("1==", "1", n));
        texts.push(chain("true&&", "true", n));
        texts.push(chain("true||false&&", "true", n));
        texts.push(chain("false?1:", "1", n));
        texts.push("data".to_owned() + &".a".repeat(n));
        texts.push("data".to_owned() + &"[0]".repeat(n));
        texts.push("[1]".to_owned() + &".map(a,a)".repeat(n));
        texts.push("[1]".to_owned() + &".filter(a,a>0)".repeat(n) + " == [1]");
        texts.push("''".to_owned() + &".size()".repeat(n));
        texts.push("!".repeat(n) + "true");
    }
    for text in texts {
        eprintln!("{text}");
        on_small_stack(move || {
            if let Ok(expression) = Expression::compile(&text) {
                let _ = alone(&expression, &ordinary().scope());
                drop(expression);
            }
        });
    }
}

#[test]
fn deep_data_fits_a_workers_stack() {
    on_small_stack(|| {
        let depth = crate::limits::DATA_DEPTH_MAX - 1;
        let deep: Value = serde_json::from_str(&format!("{}1{}", "[".repeat(depth), "]".repeat(depth))).unwrap();
        let world = World::new(json!({"deep": deep, "same": deep}), json!({}));
        assert_eq!(world.evaluate("data.deep == data.same"), Ok(json!(true)));
        assert_eq!(world.evaluate("[data.deep].map(x, [x])").unwrap_err(), "the result is nested too deeply");
    });
}

/// Evaluates as the only expression of its decision.
fn alone(expression: &Expression, scope: &Scope<'_>) -> Result<Value, String> {
    cost::begin();
    expression.evaluate(scope)
}

#[test]
fn the_expressions_of_one_decision_pay_from_one_purse() {
    let world = World::new(json!({"blob": "x".repeat(200_000)}), json!({}));
    let copy = Expression::compile("data.blob").unwrap();
    cost::begin();
    let copies = (0..100).take_while(|_| copy.evaluate(&world.scope()).is_ok()).count();
    assert!((1..10).contains(&copies), "{copies} copies of 200 kB");
    assert!(copy.evaluate(&world.scope()).unwrap_err().starts_with("cost: "));
    assert!(alone(&copy, &world.scope()).is_ok(), "the next decision has its own");
}
