use lockkeeper_model::{Definition, Format};

use crate::check_problems;

/// Any text as a definition: problems come in the order of the text, and what is accepted reads again as itself, is
/// accepted later too, and can be drawn.
pub fn definition(text: &str) {
    for format in [Format::Yaml, Format::Json] {
        let accepted = Definition::read_accepted(text, format);
        match Definition::read(text, format) {
            Ok(definition) => {
                let again = Definition::read(text, format).expect("accepted before");
                assert_eq!(again.outline(), definition.outline());
                assert!(accepted.is_ok(), "{accepted:?}");
                assert!(definition.mermaid().starts_with("stateDiagram-v2\n"));
                assert!(definition.warnings().is_sorted_by_key(|warning| (warning.line, warning.column)));
            }
            Err(problems) => check_problems(&problems),
        }
    }
}
