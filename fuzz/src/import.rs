use lockkeeper_model::import::{self, Options, Source};
use lockkeeper_model::{Definition, Format};

use crate::check_problems;

/// Any text as a machine of each other tool: what is read is a definition that the checker accepts.
pub fn import(text: &str) {
    let guards = [("isValid", "data.valid"), ("g", "event.n > 1")];
    let guards = guards.map(|(name, cel)| (name.to_owned(), cel.to_owned())).into();
    let options = Options { workflow: None, guards };
    for source in [Source::XState, Source::Scxml, Source::Symfony] {
        match import::import(text, source, &options) {
            Ok(imported) => {
                let definition = Definition::read(&imported.text, Format::Yaml).expect("what is imported is checked");
                assert!(!definition.mermaid().is_empty());
            }
            Err(problems) => check_problems(&problems),
        }
    }
    for ending in ["", "json", "yaml", "xml"] {
        _ = Source::detect(ending, text);
    }
}
