//! A server's time of day, in the hands of a test.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::process::Command;

use crate::command::run;
use crate::folder::Folder;
use crate::programs;

/// What is loaded into the server.
const SHIM: &str = include_str!("clock.c");

/// Names the file that the time is read from.
const VARIABLE: &str = "TESTBED_CLOCK";

/// A time of day that stands still, and moves when it is set.
#[derive(Debug)]
pub(super) struct ServerClock {
    file: File,
    path: PathBuf,
    library: PathBuf,
}

impl ServerClock {
    pub(super) fn new(folder: &Folder) -> Self {
        let [source, library, path] = ["clock.c", "clock.so", "clock"].map(|name| folder.path().join(name));
        folder.write(&source, SHIM);
        let mut compiler = folder.command(&programs::of_system("cc"));
        compiler.args(["-shared", "-fPIC", "-O1", "-o"]).args([&library, &source]);
        run(compiler, "");
        folder.write(&path, [0; 8]);
        let file = File::options().write(true).open(&path).expect("it was just written");
        Self { file, path, library }
    }

    pub(super) fn set(&self, millis: i64) {
        self.file.write_all_at(&(millis * 1_000).to_ne_bytes(), 0).expect("the clock can be set");
    }

    pub(super) fn give_to(&self, command: &mut Command) {
        command.env("LD_PRELOAD", &self.library).env(VARIABLE, &self.path);
    }
}
