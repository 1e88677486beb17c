//! What the command reads and writes is what `lock run` was given.

use std::io::Write;
use std::io::{Read, Result};

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
    let (code, output) = Holding::command(&["ls", "/proc/self/fd"]).run();
    assert_eq!(code, Some(0));
    let open: Vec<&str> = output.lines().filter(|line| line.parse::<u32>().is_ok()).collect();
    // The last is the folder that is listed.
    assert_eq!(open, ["0", "1", "2", "3"], "{output}");
}
