//! HTTP written by hand: what no client library would send.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Longer than the server works on any request.
const ANSWER_MAX: Duration = Duration::from_secs(40);

/// Connects.
pub(crate) fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the server listens");
    stream.set_read_timeout(Some(ANSWER_MAX)).expect("a socket has timeouts");
    stream
}

/// Sends the bytes and reads until the server closes the connection: status, head, body.
pub(crate) fn exchange(address: &str, request: &[u8]) -> (u16, String, String) {
    let mut stream = connect(address);
    stream.write_all(request).expect("the request is taken");
    read(&mut stream)
}

/// Reads one answer, until the server closes the connection.
pub(crate) fn read(stream: &mut TcpStream) -> (u16, String, String) {
    let mut bytes = Vec::new();
    // A server that refuses a request unread may reset the connection after its answer.
    let _reset = stream.read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.unwrap_or_else(|| panic!("no status: {head}")), head.to_ascii_lowercase(), body.to_owned())
}

/// A request's head and body, with what is needed to read the answer to its end.
pub(crate) fn request(line: &str, host: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("{line} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}")
        .into_bytes()
}
