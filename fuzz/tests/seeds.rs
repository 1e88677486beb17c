//! What is fuzzed, on the seeds and on seeds that were damaged at random: a second of it with every test run.
#![allow(missing_docs)]

use std::path::{Path, PathBuf};
use std::{fs, panic};

use arbitrary::{Arbitrary, Unstructured};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// Damaged seeds of each target; together about a second.
const CASES: u32 = 400;

/// Seeds past this size are run as they are only: damaged, they cost what many small ones cost.
const DAMAGED_BYTES_MAX: usize = 8 * 1024;

/// Texts that mean something somewhere.
const WORDS: &[&str] = &[
    "",
    "\n",
    "  ",
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "\"",
    "'",
    "|",
    "&a",
    "*a",
    "<",
    ">",
    "/>",
    "#",
    "---\n",
    "null",
    "true",
    "-1",
    "9223372036854775808",
    "1e999",
    "\u{feff}",
    "é",
    "states",
    "on",
    "after",
    "always",
    "initial",
    "target",
    "guard",
    "72h",
    "1000",
    "&&",
    "data.n",
    "$ref",
    "anyOf",
    "(",
    ")",
    ".map(x, ",
    "<state id='a'>",
    "</state>",
    "type",
    "final",
    "\\u0000",
];

fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> =
        entries.map(|entry| entry.expect("an entry").path()).filter(|path| path.is_file()).collect();
    files.sort();
    files
}

fn seeds(folders: &[&str]) -> Vec<Vec<u8>> {
    let seeds: Vec<_> =
        folders.iter().flat_map(|folder| files(folder)).map(|file| fs::read(file).expect("a file")).collect();
    assert!(!seeds.is_empty(), "no seeds in {folders:?}");
    seeds
}

/// A cut, and what takes its place: a word, or a piece of another seed.
#[derive(Clone, Debug)]
struct Damage {
    at: prop::sample::Index,
    cut: usize,
    word: &'static str,
    piece: Option<(prop::sample::Index, prop::sample::Index, usize)>,
}

fn damage() -> impl Strategy<Value = Damage> {
    let piece = prop::option::weighted(0.3, (any::<prop::sample::Index>(), any::<prop::sample::Index>(), 1..60_usize));
    (any::<prop::sample::Index>(), 0..30_usize, prop::sample::select(WORDS), piece)
        .prop_map(|(at, cut, word, piece)| Damage { at, cut, word, piece })
}

fn damaged(seeds: &[Vec<u8>], seed: &[u8], damages: &[Damage]) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for Damage { at, cut, word, piece } in damages {
        let at = at.index(bytes.len() + 1);
        let with = match piece {
            Some((other, from, length)) => {
                let other = &seeds[other.index(seeds.len())];
                let from = from.index(other.len() + 1);
                &other[from..other.len().min(from + length)]
            }
            None => word.as_bytes(),
        };
        bytes.splice(at..bytes.len().min(at + cut), with.iter().copied());
    }
    bytes
}

/// Runs `target` on all seeds of `folders`, and on damaged ones.
fn drive(folders: &[&str], target: fn(&[u8])) {
    let seeds = seeds(folders);
    for seed in &seeds {
        target(seed);
    }
    let small: Vec<&Vec<u8>> = seeds.iter().filter(|seed| seed.len() <= DAMAGED_BYTES_MAX).collect();
    let mut runner = TestRunner::new(Config { cases: CASES, failure_persistence: None, ..Config::default() });
    let cases = (any::<prop::sample::Index>(), prop::collection::vec(damage(), 1..6));
    let outcome = runner.run(&cases, |(seed, damages)| {
        let bytes = damaged(&seeds, small[seed.index(small.len())], &damages);
        // What was fed is told in a form that can be kept as a seed.
        let run = panic::catch_unwind(|| target(&bytes));
        run.map_err(|_| TestCaseError::fail(format!("fed {:?}", String::from_utf8_lossy(&bytes))))
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}

/// A target that takes text: bytes that are none are passed over, as `libFuzzer` does.
macro_rules! texts {
    ($name:ident, $folders:expr) => {
        #[test]
        fn $name() {
            drive($folders, |bytes| {
                if let Ok(text) = std::str::from_utf8(bytes) {
                    lockkeeper_fuzz::$name(text);
                }
            });
        }
    };
}

texts!(definition, &["seeds/definition", "../examples"]);
texts!(import, &["seeds/import", "../crates/model/tests/suite/machines"]);
texts!(expression, &["seeds/expression"]);
texts!(schema, &["seeds/schema"]);

#[test]
fn stored() {
    drive(&["seeds/stored"], lockkeeper_fuzz::stored);
}

#[test]
fn decide() {
    let mut runner = TestRunner::new(Config { cases: CASES, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&prop::collection::vec(any::<u8>(), 0..1_500), |bytes| {
        if let Ok(case) = lockkeeper_fuzz::Case::arbitrary(&mut Unstructured::new(&bytes)) {
            lockkeeper_fuzz::decide(case);
        }
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}
