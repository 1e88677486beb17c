//! What is fuzzed. Each function takes whatever comes, and panics where something is not as it has to be; `libFuzzer` feeds
//! them in `fuzz_targets`, and the tests feed them damaged seeds.

mod decide;
mod definition;
mod expression;
mod import;
mod schema;
mod stored;

pub use decide::{Case, decide};
pub use definition::definition;
pub use expression::expression;
pub use import::import;
pub use schema::schema;
pub use stored::stored;

use lockkeeper_model::Problem;

/// Problems are told in the order of the text, each with what to write instead.
fn check_problems(problems: &[Problem]) {
    assert!(!problems.is_empty());
    assert!(problems.is_sorted_by_key(|problem| (problem.line, problem.column)), "{problems:?}");
    assert!(problems.iter().all(|problem| !problem.message.is_empty()), "{problems:?}");
}
