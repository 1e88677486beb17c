//! Each error code in the sources has its page in docs/errors and its row in the index, under the right name.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What stands in quotes and looks like a code: `"LK0007"`.
fn codes(text: &str) -> BTreeSet<String> {
    let is_code =
        |word: &&str| word.len() == 6 && word.starts_with("LK") && word[2..].bytes().all(|b| b.is_ascii_digit());
    text.split('"').filter(is_code).map(str::to_owned).collect()
}

#[test]
fn each_code_has_a_page() {
    let mut used = BTreeSet::new();
    for source in ["crates/model/src/outcome.rs", "crates/server/src/problem.rs", "crates/server/src/lock_problem.rs"] {
        used.extend(codes(&fs::read_to_string(repository().join(source)).unwrap()));
    }
    assert!(used.len() > 20, "the codes have moved to another file");
    let index = fs::read_to_string(repository().join("docs/errors/README.md")).unwrap();
    for code in &used {
        let page = fs::read_to_string(repository().join(format!("docs/errors/{code}.md")));
        let page = page.unwrap_or_else(|e| panic!("docs/errors/{code}.md: {e}"));
        let title = page.lines().next().unwrap_or_default();
        let outcome = title.strip_prefix(&format!("# {code} ")).unwrap_or_else(|| panic!("{code}: titled {title:?}"));
        let row = format!("| [{code}]({code}.md) | {outcome} |");
        assert!(index.contains(&row), "the index lacks the row {row:?}");
        assert!(page.contains("## Cause") && page.contains("## What to do") && page.contains("```json"), "{code}");
    }
}
