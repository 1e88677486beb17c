//! Machines of other tools do here what they do there, or it is said that they would not.
//!
//! What they do there was looked up in the algorithm of SCXML (<https://www.w3.org/TR/scxml/#AlgorithmforSCXMLInterpretation>)
//! and tried with SCION and XState 5.

use lockkeeper_model::import::{Options, Source, import};

use crate::support::Case;

fn with_guards(guards: &[(&str, &str)]) -> Options {
    let guards = guards.iter().map(|(name, cel)| ((*name).to_owned(), (*cel).to_owned())).collect();
    Options { guards, ..Options::default() }
}

/// What a machine becomes.
fn text(text: &str, source: Source, options: &Options) -> String {
    match import(text, source, options) {
        Ok(imported) => imported.text,
        Err(problems) => panic!("{text}\n{}", problems.iter().map(|p| format!("{p}\n")).collect::<String>()),
    }
}

/// What is wrong with a machine.
fn refused(text: &str, source: Source, options: &Options) -> String {
    match import(text, source, options) {
        Ok(imported) => panic!("accepted:\n{}", imported.text),
        Err(problems) => problems.iter().map(|problem| format!("{problem}\n")).collect(),
    }
}

/// What is lost, and what is noted.
fn told(text: &str, source: Source) -> String {
    match import(text, source, &Options::default()) {
        Ok(imported) => imported.lost.iter().chain(&imported.notes).map(|problem| format!("{problem}\n")).collect(),
        Err(problems) => panic!("{text}\n{}", problems.iter().map(|p| format!("{p}\n")).collect::<String>()),
    }
}

fn scxml(inside: &str) -> String {
    format!("<scxml xmlns='http://www.w3.org/2005/07/scxml' name='m' initial='a'>\n{inside}\n</scxml>")
}

fn run_scxml(inside: &str, steps: &str) {
    Case::new(&text(&scxml(inside), Source::Scxml, &Options::default())).run(steps);
}

fn xstate(states: &str) -> String {
    format!("{{\"id\": \"m\", \"initial\": \"a\", \"states\": {{{states}}}}}")
}

/// What a state is done with is an event of its own, which waits until no transition without an event can be taken, and is
/// gone when it was asked about.
#[test]
fn what_is_done_is_asked_about_once_and_last() {
    let inside = "
      <state id='a'><transition event='begin' target='P'/></state>
      <state id='P' initial='p'>
        <transition event='done.state.P' target='n1'/>
        <transition cond='x == 1' target='n2'/>
        <state id='p'><transition event='go' target='f'><assign location='x' expr='1'/></transition>
          <transition event='skip' target='f'/></state>
        <final id='f'/>
      </state>
      <final id='n1'/><final id='n2'/>";
    run_scxml(
        inside,
        "ann start data={} -> started v1 a\nann begin -> applied v2 p\nann go -> applied v3 n2 completed",
    );
    run_scxml(
        inside,
        "ann start data={} -> started v1 a\nann begin -> applied v2 p\nann skip -> applied v3 n1 completed",
    );
    let late = "
      <state id='a'><transition event='go' target='G'/></state>
      <state id='G' initial='P'>
        <transition event='set'><assign location='x' expr='1'/></transition>
        <transition event='quit' target='q'/>
        <state id='P' initial='f'>
          <transition event='done.state.P' cond='x == 1' target='z'/>
          <final id='f'/>
        </state>
      </state>
      <final id='z'/><final id='q'/>";
    run_scxml(
        late,
        "ann start data={} -> started v1 a\n\
         ann go -> applied v2 f\n\
         ann set -> applied v3 f\n\
         ann quit -> applied v4 q completed",
    );
    run_scxml(late, "ann start data={\"x\":1} -> started v1 a\nann go -> applied v2 z completed");
    // Who leaves without an event takes along what is not asked about yet.
    let carried = "
      <state id='a'><transition event='go' target='P'/></state>
      <state id='P' initial='f'><transition cond='x == 1' target='other'/><final id='f'/></state>
      <state id='other'><transition event='done.state.P' target='z'/><transition event='end' target='z'/></state>
      <final id='z'/>";
    run_scxml(carried, "ann start data={\"x\":1} -> started v1 a\nann go -> applied v2 z completed");
}

#[test]
fn what_needs_no_event_asks_for_none() {
    let done = "
      <state id='a'><transition event='go' target='P'/></state>
      <state id='P' initial='f'><final id='f'/>
        <transition event='done.state.P' cond='_event.data.ok == true' target='z'/>
        <transition event='done.state.P' target='n'/></state>
      <final id='z'/><final id='n'/>";
    assert!(
        refused(&scxml(done), Source::Scxml, &Options::default()).contains("asks for what the state was done with")
    );
    let always = "
      <state id='a'><transition event='ping'/><transition cond='_event.data.urgent == true' target='z'/></state>
      <final id='z'/>";
    let asked_again = "it would be asked again with every event";
    assert!(refused(&scxml(always), Source::Scxml, &Options::default()).contains(asked_again));
    let machine =
        xstate(r#""a": {"on": {"PING": {}}, "always": {"guard": "g", "target": "z"}}, "z": {"type": "final"}"#);
    assert!(refused(&machine, Source::XState, &with_guards(&[("g", "event.urgent")])).contains(asked_again));
    let text = text(&machine, Source::XState, &with_guards(&[("g", "data.event && true")]));
    assert!(text.contains("PING"), "{text}");
}

/// <https://www.w3.org/TR/scxml/#EventDescriptors>
#[test]
fn a_descriptor_stands_for_what_the_machine_names() {
    let inside = "
      <state id='a'><transition event='error' target='z'/><transition event='err' target='z'/>
        <transition event='ok' target='b'/></state>
      <state id='b'><transition event='error.network.down' target='a'/><transition event='errors' target='z'/></state>
      <final id='z'/>";
    run_scxml(inside, "ann start -> started v1 a\nann error.network.down from=a -> applied v2 z completed");
    let definition = text(&scxml(inside), Source::Scxml, &Options::default());
    assert_eq!(definition.matches("error.network.down").count(), 2, "{definition}");
    assert_eq!(definition.matches("errors").count(), 1, "{definition}");
    // The one that comes first is asked first.
    let order = "
      <state id='a'><transition event='e' cond='n == 1' target='b'/><transition event='e.x' target='z'/></state>
      <state id='b'><transition event='e.x' target='z'/></state><final id='z'/>";
    run_scxml(order, "ann start data={\"n\":1} -> started v1 a\nann e.x from=a -> applied v2 b");
    for event in ["done", "done.state", "done.state.P", "done.*"] {
        let inside = format!(
            "<state id='a'><transition event='go' target='P'/></state>
             <state id='P' initial='f'><final id='f'/><transition event='{event}' target='z'/></state><final id='z'/>"
        );
        run_scxml(&inside, "ann start -> started v1 a\nann go -> applied v2 z completed");
    }
}

/// Tags of PHP mean nothing where they stand beside the workflow, and cannot be read in it.
#[test]
fn tags_matter_where_they_are_carried_over() {
    let file = |supports: &str, place: &str| {
        format!(
            "services: {{App: {{arguments: [!tagged_iterator app.h]}}}}\nframework:\n  workflows:\n    blog:\n      type: \
             state_machine\n      supports: [{supports}]\n      places: [{place}, done]\n      transitions:\n        go: {{from: \
             draft, to: done}}\n"
        )
    };
    let blog = import(&file("!php/const App::A", "draft"), Source::Symfony, &Options::default());
    assert!(blog.is_ok(), "{blog:?}");
    let problem = refused(&file("App", "!php/const App::DRAFT"), Source::Symfony, &Options::default());
    assert!(problem.contains("!php/const"), "{problem}");
}

/// A guard that is given in CEL looks at the fields that it names, and at no longer or shorter ones.
#[test]
fn what_a_given_guard_reads_is_told_by_whole_names() {
    let inside = |location: &str| {
        scxml(&format!(
            "<state id='a'><onentry><assign location='{location}' expr='1'/></onentry>
             <transition event='e' cond='big(total)' target='z'/></state><final id='z'/>"
        ))
    };
    for (location, guard, is_read) in
        [("t", "data.total > 3", false), ("total", "data.total > 3", true), ("total", "data['total'] > 3", true)]
    {
        let guards = [("big(total)".to_owned(), guard.to_owned())].into_iter().collect();
        let options = Options { guards, ..Options::default() };
        match import(&inside(location), Source::Scxml, &options) {
            Ok(imported) => assert!(!is_read, "{location} {guard}: {imported:?}"),
            Err(problems) => assert!(is_read, "{location} {guard}: {problems:?}"),
        }
    }
}

/// `done` is an ordinary event, too, whatever else begins so.
#[test]
fn an_event_that_is_called_done_stays() {
    let inside = "
      <state id='a'><transition event='done' target='check'/><transition event='cancel' target='check'/></state>
      <state id='check' initial='c1'><state id='c1'><transition event='ok' target='c2'/></state><final id='c2'/>
        <transition event='done.state.check' target='end'/></state><final id='end'/>";
    run_scxml(inside, "ann start -> started v1 a\nann done -> applied v2 c1\nann ok -> applied v3 end completed");
}

/// What is not there is no error in ECMAScript, and no field equals it.
#[test]
fn absent_fields_take_the_way_that_they_take_there() {
    let inside = "
      <datamodel><data id='n' expr='1'/><data id='u'/></datamodel>
      <state id='a'>
        <transition event='vip' cond='_event.data.vip == true' target='yes'/><transition event='vip' target='no'/>
        <transition event='plain' cond='!_event.data.vip' target='yes'/><transition event='plain' target='no'/>
        <transition event='set' cond='u != 1' target='yes'/><transition event='set' target='no'/>
        <transition event='x' cond='x != 1' target='yes'/><transition event='x' target='no'/>
        <transition event='many' cond='_event.data.items.length &gt; 1' target='yes'/>
        <transition event='many' target='no'/>
      </state><final id='yes'/><final id='no'/>";
    for (sent, state) in [
        ("vip", "no"),
        ("vip data={\"vip\":true}", "yes"),
        ("plain", "yes"),
        ("plain data={\"vip\":true}", "no"),
        ("set", "yes"),
        ("x", "no"),
        ("many", "no"),
        ("many data={\"items\":[1,2]}", "yes"),
    ] {
        run_scxml(
            inside,
            &format!("ann start data={{\"n\":1}} -> started v1 a\nann {sent} -> applied v2 {state} completed"),
        );
    }
}

#[test]
fn numbers_are_those_of_the_machine_or_refused() {
    let inside = "
      <state id='a'><transition event='half' target='b'><assign location='x' expr='x + 0.5'/></transition></state>
      <state id='b'><transition event='ok' cond='x == 1.5 &amp;&amp; -(-5) == 5' target='z'/></state>
      <final id='z'/>";
    run_scxml(
        inside,
        "ann start data={\"x\":1.0} -> started v1 a\nann half -> applied v2 b\nann ok -> applied v3 z completed",
    );
    // CEL does not mix whole numbers and fractions: nothing is rounded in silence.
    run_scxml(
        inside,
        "ann start data={\"x\":1} -> started v1 a\nann half -> guard_error: cannot evaluate \"data.x + 0.5\": cannot add int and float",
    );
}

#[test]
fn what_equality_would_convert_is_named() {
    let guard = |data: &str, cond: &str| {
        scxml(&format!(
            "<datamodel>{data}</datamodel>
             <state id='a'><transition event='e' cond=\"{cond}\" target='z'/><transition event='f' target='z'/></state><final id='z'/>"
        ))
    };
    let number = "<data id='x' expr='5'/>";
    assert!(refused(&guard(number, "x == '5'"), Source::Scxml, &Options::default()).contains("never holds"));
    assert!(told(&guard("", "x == '5'"), Source::Scxml).contains("holds for the text alone"));
    for (data, cond) in
        [("", "x == 'five'"), ("", "x === '5'"), (number, "x == 5"), ("<data id='x' expr=\"'a'\"/>", "x == '5'")]
    {
        assert!(!told(&guard(data, cond), Source::Scxml).contains("ECMAScript"), "{data} {cond}");
    }
    let symfony =
        "type: state_machine\nplaces: [a, b]\ntransitions: {x: {from: a, to: b, guard: \"subject.total == '5'\"}}\n";
    let options = Options { workflow: Some(lockkeeper_model::WorkflowName::new("w").unwrap()), ..Options::default() };
    let imported = import(symfony, Source::Symfony, &options).unwrap();
    assert!(imported.notes.iter().any(|note| note.message.contains("in PHP")), "{:?}", imported.notes);
}

#[test]
fn guards_with_params_are_conditions_of_their_own() {
    let machine = xstate(
        r#""a": {"on": {"E": [{"guard": {"type": "over", "params": {"n": 20, "of": ["x"]}}, "target": "big"},
                              {"guard": {"type": "over", "params": {"n": 10}}, "target": "mid"}, {"target": "small"}]}},
           "big": {"type": "final"}, "mid": {"type": "final"}, "small": {"type": "final"}"#,
    );
    let problems = refused(&machine, Source::XState, &with_guards(&[("over", "data.x > 20")]));
    assert!(problems.contains("--guard 'over {\"n\":20,\"of\":[\"x\"]}=CEL'"), "{problems}");
    assert!(problems.contains("the machine has no guard \"over\""), "{problems}");
    let given = [("over {\"n\":20,\"of\":[\"x\"]}", "data.x > 20"), ("over {\"n\":10}", "data.x > 10")];
    let text = text(&machine, Source::XState, &with_guards(&given));
    for (x, state) in [(21, "big"), (11, "mid"), (1, "small")] {
        Case::new(&text)
            .run(&format!("ann start data={{\"x\":{x}}} -> started v1 a\nann E -> applied v2 {state} completed"));
    }
}

/// What is never tried leads nowhere.
#[test]
fn states_behind_transitions_that_are_never_tried_are_left_out() {
    let inside = "
      <state id='a'><transition event='e' cond='x == 1' target='b'/><transition event='e' cond='x == 1' target='c'/>
        <transition event='e' target='b'/></state>
      <final id='b'/><final id='c'/>";
    assert!(told(&scxml(inside), Source::Scxml).contains("nothing leads to state \"c\""));
}

#[test]
fn what_xstate_infers_is_inferred() {
    let history = xstate(
        r#""a": {"on": {"x": "b.last"}}, "b": {"initial": "c", "on": {"y": "a"}, "states": {"c": {}, "last": {"history": "shallow"}}}"#,
    );
    let problems = refused(&history, Source::XState, &Options::default());
    assert!(problems.contains("`type: history` cannot be carried over"), "{problems}");
    // An empty list has no transition; an empty block is one that stays.
    let around = |own: &str| {
        let machine = xstate(&format!(
            r##""a": {{"initial": "i", "on": {{"GO": "z"}}, "states": {{"i": {{"on": {{"GO": {own}, "OUT": "#m.z"}}}}}}}}, "z": {{"id": "m.z", "type": "final"}}"##
        ));
        text(&machine, Source::XState, &Options::default())
    };
    assert!(around("[]").contains("GO: z"));
    assert!(around("{}").contains("GO: {}"));
}

#[test]
fn what_would_be_another_machine_is_no_loss() {
    let within = xstate(
        r##""a": {"on": {"E": [{"target": "b", "in": "#x"}, "c"]}}, "b": {"type": "final"}, "c": {"type": "final"}"##,
    );
    assert!(refused(&within, Source::XState, &Options::default()).contains("`in` asks for another state"));
    for content in [
        "<onentry><assign location='n' expr='0'/></onentry><transition event='e' cond='n == 0' target='z'/>",
        "<transition event='e'><if cond='x'><assign location='n.m' expr='1'/></if></transition>\
         <transition event='f' cond='n == 1' target='z'/>",
        "<transition event='e' target='z'><assign location='m' expr='n'/></transition>\
         <transition event='f'><foreach array='l' item='i'><assign location='n' expr='i'/></foreach></transition>",
    ] {
        let problems = refused(
            &scxml(&format!("<state id='a'>{content}</state><final id='z'/>")),
            Source::Scxml,
            &Options::default(),
        );
        assert!(problems.contains("here \"n\" is assigned, which is not carried over"), "{content}\n{problems}");
    }
    let unread = "<state id='a'><onentry><assign location='n' expr='0'/></onentry><transition event='e' target='z'/></state><final id='z'/>";
    assert!(told(&scxml(unread), Source::Scxml).contains("<assign> (n, 0) in <onentry> is not carried over"));
    let include = "<xi:include xmlns:xi='http://www.w3.org/2001/XInclude' href='x'/><state id='a'/>";
    assert!(
        refused(&scxml(include), Source::Scxml, &Options::default()).contains("<include> of XInclude is not followed")
    );
    let empty =
        "<state id='a'><transition event='' target='z'/><transition event='e' target='z'/></state><final id='z'/>";
    assert!(refused(&scxml(empty), Source::Scxml, &Options::default()).contains("`event` is empty"));
    let space = "<scxml xmlns='http://www.w3.org/2005/07/SCXML' name='m'/>";
    assert!(refused(space, Source::Scxml, &Options::default()).contains("is not SCXML's"));
    let same = "places: [a, b, c]\ntransitions: [{name: go, from: a, to: b}, {name: go, from: a, to: c}]\n";
    assert!(refused(same, Source::Symfony, &Options::default()).contains("this one would never be taken"));
}

#[test]
fn nothing_is_dropped_in_silence() {
    let foreign = "
      <state id='a'><onentry><my:charge xmlns:my='http://my'/></onentry>
        <transition event='go' target='z'><my:notify xmlns:my='http://my'/></transition></state><final id='z'/>";
    let told_of = told(&scxml(foreign), Source::Scxml);
    assert!(told_of.contains("<charge> is of another namespace") && told_of.contains("<notify> is"), "{told_of}");
    let meta = r#"{"id": "m", "version": "1", "initial": "a", "states": {"a": {"meta": {"x": 1}, "on": {"E": {"target": "b", "meta": {}}}}, "b": {"type": "final"}}}"#;
    assert_eq!(told(meta, Source::XState).lines().count(), 3, "{}", told(meta, Source::XState));
    let environments = "
framework: {workflows: {pr: {places: [a, b], transitions: {go: {from: a, to: b}}}}}
when@prod: {framework: {workflows: {pr: {transitions: {kill: {from: a, to: b}}}}}}
when@test: {framework: {test: true}}
";
    let told_of = told(environments, Source::Symfony);
    assert!(told_of.contains("what `when@prod` changes") && !told_of.contains("when@test"), "{told_of}");
}

#[test]
fn names_that_are_made_up_are_nobody_s() {
    let text = text(
        "<scxml name='m'><state><transition event='go' target='state2'/></state>
           <state id='state2'><transition event='go2' target='state1'/></state>
           <state id='state1'><transition event='end' target='f'/></state><final id='f'/></scxml>",
        Source::Scxml,
        &Options::default(),
    );
    Case::new(&text).run("ann start -> started v1 state3\nann go -> applied v2 state2\nann go2 -> applied v3 state1");
}

#[test]
fn what_php_knows_is_asked_for() {
    let workflow = |inside: &str| {
        format!(
            "framework:\n  workflows:\n    blogPost:\n      places: [a, b]\n      marking_store: {{property: place}}\n      transitions:\n        x: {inside}\n"
        )
    };
    for (inside, expected) in [
        ("{from: !php/const A::B, to: b}", "7:19: `!php/const` is a value of PHP's"),
        ("{from: a, to: !php/enum A::B}", "7:26: `!php/enum` is a value of PHP's"),
        ("{from: a, to: b, guard: \"is_granted('IS_AUTHENTICATED_FULLY')\"}", "is no role"),
        ("{from: a, to: b, guard: 'subject.place.name'}", "is a part of the state"),
        ("{from: a, to: b, guard: ''}", "the guard is empty (write a condition, or remove it)"),
    ] {
        let problems = refused(&workflow(inside), Source::Symfony, &Options::default());
        assert!(problems.contains(expected), "{inside}\n{problems}");
    }
    let inside = "{from: a, to: b, guard: \"subject.place == 'a' and subject.marking == 1\"}";
    let text = text(&workflow(inside), Source::Symfony, &Options::default());
    assert!(text.contains(r#"guard: "instance.state == \"a\" && data.marking == 1""#), "{text}");
}

#[test]
fn a_workflow_is_chosen_by_the_name_that_it_gets() {
    let text = "framework: {workflows: {blogPost: {places: [a], transitions: {}}, pull_request: {places: [b], transitions: {}}}}";
    assert!(
        refused(text, Source::Symfony, &Options::default())
            .ends_with("name one by --workflow: blog-post, pull_request)\n")
    );
    for (name, place) in [("blog-post", "a"), ("pull_request", "b"), ("pull-request", "b")] {
        let options =
            Options { workflow: Some(lockkeeper_model::WorkflowName::new(name).unwrap()), ..Options::default() };
        let text = self::text(text, Source::Symfony, &options);
        assert!(text.contains(&format!("initial: {place}\n")), "{name}: {text}");
    }
}

/// The remedy can be typed as it stands.
#[test]
fn the_data_that_it_begins_with_is_shown_for_the_shell() {
    let inside = "
      <datamodel><data id='cfg'>{a: 1}</data><data id='n' expr='5 * 60'/><data id='s' expr=\"'it\\'s'\"/><data id='u'/></datamodel>
      <state id='a'><transition event='e' target='z'/></state><final id='z'/>";
    let told = told(&scxml(inside), Source::Scxml);
    let expected =
        r#"--data '{"cfg":null,"n":null,"s":"it'\''s","u":null}'; what is computed has to be filled in: cfg, n)"#;
    assert!(told.contains(expected), "{told}");
}
