//! How `watch` takes ends of streams: a server of this test's own says when and how.

use std::io::{BufRead, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;

use crate::support::program::command;

/// The head of a stream, and one event of it.
const BEGIN: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\
                     connection: close\r\n\r\n";

/// A request to the server: what was asked, and where the answer goes.
fn accept(listener: &TcpListener) -> (String, TcpStream) {
    let (stream, _) = listener.accept().unwrap();
    let mut asked = String::new();
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    while let Some(Ok(line)) = lines.next() {
        if line.is_empty() {
            break;
        }
        asked.push_str(&line);
        asked.push('\n');
    }
    (asked, stream)
}

fn event(stream: &mut TcpStream, version: i64) {
    let data =
        format!(r#"{{"workflow":"w","id":"a","version":{version},"kind":"move","at":"x","to":"s","actor":"ann"}}"#);
    let text = format!("id: 1-0-{version}-0-0\nevent: move\ndata: {data}\n\n");
    write!(stream, "{:x}\r\n{text}\r\n", text.len()).unwrap();
}

/// Servers end each stream after some minutes: that is no news. A stream that breaks is.
#[test]
fn a_planned_end_is_taken_up_in_silence_and_a_break_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let mut command = command(folder.path());
    command.args(["watch", "--after", "begin", "--url", &url]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut watch = command.spawn().unwrap();
    let mut shown = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut notes = BufReader::new(watch.stderr.take().unwrap()).lines();
    assert!(shown.next().unwrap().unwrap().starts_with("INSTANCE"));
    for version in 1..=3 {
        let (asked, mut stream) = accept(&listener);
        let after = if version == 1 { "begin".to_owned() } else { format!("1-0-{}-0-0", version - 1) };
        assert!(asked.contains(&format!("after={after} ")), "{asked}");
        write!(stream, "{BEGIN}").unwrap();
        event(&mut stream, version);
        let line = shown.next().unwrap().unwrap();
        assert!(line.contains(&format!("  {version}  ")), "{line}");
        if version < 3 {
            // In good order, twice.
            write!(stream, "0\r\n\r\n").unwrap();
        }
        // Dropped: the third stream is cut.
    }
    let (_, mut stream) = accept(&listener);
    write!(stream, "{BEGIN}").unwrap();
    event(&mut stream, 4);
    shown.next().unwrap().unwrap();
    watch.kill().unwrap();
    watch.wait().unwrap();
    let said: Vec<String> = notes.by_ref().map_while(Result::ok).collect();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("broke"), "{said:?}");
}
