//! Any text as a definition, and as a machine of each other tool: nothing panics or hangs, problems come in the order of
//! the text, and what is accepted reads again as itself.

#![no_main]

use libfuzzer_sys::fuzz_target;
use lockkeeper_model::import::{Options, Source, import};
use lockkeeper_model::{Definition, Format, Problem};

fuzz_target!(|text: &str| {
    for format in [Format::Yaml, Format::Json] {
        match Definition::read(text, format) {
            Ok(definition) => {
                let again = Definition::read(text, format).expect("accepted before");
                assert_eq!(again.outline(), definition.outline());
                assert!(Definition::read_accepted(text, format).is_ok());
                assert!(definition.mermaid().starts_with("stateDiagram-v2\n"));
            }
            Err(problems) => check(&problems),
        }
    }
    for source in [Source::XState, Source::Scxml, Source::Symfony] {
        match import(text, source, &Options::default()) {
            Ok(imported) => drop(Definition::read(&imported.text, Format::Yaml).expect("what is imported is checked")),
            Err(problems) => check(&problems),
        }
    }
    _ = Source::detect("", text);
});

fn check(problems: &[Problem]) {
    assert!(!problems.is_empty());
    assert!(problems.is_sorted_by_key(|problem| (problem.line, problem.column)));
}
