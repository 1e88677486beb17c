//! What the command reads and writes is what `lock run` was given.

use std::io::{Read, Result, Write};
use std::process::Command;

use crate::holder::Holding;

#[test]
fn standard_input_and_output_pass_through() -> Result<()> {
    let mut holder = Holding::script("echo ready >&2; tr a-z A-Z").start();
    let text = "line\n".repeat(50_000);
    let mut stdin = holder.child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(text.as_bytes()));
    let mut output = String::new();
    holder.child.stdout.take().unwrap().read_to_string(&mut output)?;
    writer.join().unwrap()?;
    assert_eq!(output.matches("LINE\n").count(), 50_000);
    assert_eq!(holder.child.wait()?.code(), Some(0));
    Ok(())
}

#[test]
fn nothing_else_is_open_in_the_command() {
    // What is open in the tests' own process may be open in all that they start.
    let inherited = descriptors(&Command::new("ls").arg("/proc/self/fd").output().unwrap().stdout);
    let (code, output) = Holding::command(&["ls", "/proc/self/fd"]).run();
    assert_eq!((code, descriptors(output.as_bytes())), (Some(0), inherited));
}

fn descriptors(listed: &[u8]) -> Vec<u32> {
    String::from_utf8_lossy(listed).lines().filter_map(|line| line.parse().ok()).collect()
}
