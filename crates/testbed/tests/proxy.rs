//! Each way a network can break, seen from both of its ends.

#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::spawn;
use std::time::{Duration, Instant};

use lockkeeper_testbed::Proxy;

/// Long enough for what is not held to arrive.
const A_WHILE: Duration = Duration::from_millis(200);

/// Far above what anything takes, even in a busy machine.
const LONG: Duration = Duration::from_secs(20);

/// A server that says back what it hears, and tells what it heard: the empty text is the end of a connection.
fn echo() -> (SocketAddr, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (heard, hears) = channel();
    let address = listener.local_addr().unwrap();
    spawn(move || {
        for stream in listener.incoming() {
            let heard = heard.clone();
            spawn(move || say_back(stream.unwrap(), &heard));
        }
    });
    (address, hears)
}

fn say_back(mut stream: TcpStream, heard: &Sender<String>) {
    let mut buffer = [0; 100];
    loop {
        let count = stream.read(&mut buffer).unwrap_or(0);
        heard.send(String::from_utf8_lossy(&buffer[..count]).into_owned()).unwrap();
        if count == 0 {
            return;
        }
        // A client that is gone is noticed at the next read.
        let _gone = stream.write_all(&buffer[..count]);
    }
}

fn connect(proxy: &Proxy) -> TcpStream {
    let stream = TcpStream::connect(proxy.address()).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream
}

fn say(mut stream: &TcpStream, text: &str) {
    stream.write_all(text.as_bytes()).unwrap();
}

/// What the stream gives next; empty at its end.
fn hear(mut stream: &TcpStream) -> String {
    let mut buffer = [0; 100];
    let count = stream.read(&mut buffer).unwrap();
    String::from_utf8_lossy(&buffer[..count]).into_owned()
}

fn is_silent(mut stream: &TcpStream) -> bool {
    stream.set_read_timeout(Some(A_WHILE)).unwrap();
    let silent = stream.read(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
    stream.set_read_timeout(Some(LONG)).unwrap();
    silent
}

#[test]
fn what_is_said_passes() {
    let (server, hears) = echo();
    let proxy = Proxy::start(server);
    let (one, two) = (connect(&proxy), connect(&proxy));
    say(&one, "one");
    say(&two, "two");
    assert_eq!((hear(&one), hear(&two)), ("one".to_owned(), "two".to_owned()));
    assert_eq!(proxy.connections(), 2);
    assert_eq!(hears.iter().take(2).map(|text| text.len()).sum::<usize>(), 6);
    drop(one);
    assert_eq!(hears.recv_timeout(LONG).unwrap(), "", "the end passes");
}

#[test]
fn cut_closes_and_refuses() {
    let (server, hears) = echo();
    let proxy = Proxy::start(server);
    let client = connect(&proxy);
    say(&client, "one");
    assert_eq!(hear(&client), "one");
    proxy.cut();
    assert_eq!(hear(&client), "");
    assert_eq!(TcpStream::connect(proxy.address()).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    assert_eq!((hears.recv_timeout(LONG).unwrap().as_str(), hears.recv_timeout(LONG).unwrap().as_str()), ("one", ""));
    proxy.cut();
    proxy.resume();
    let client = connect(&proxy);
    say(&client, "two");
    assert_eq!(hear(&client), "two");
    assert_eq!(proxy.connections(), 2);
}

#[test]
fn stalled_connections_stay_and_go_on() {
    let (server, hears) = echo();
    let proxy = Proxy::start(server);
    let old = connect(&proxy);
    say(&old, "old");
    assert_eq!((hear(&old), hears.recv_timeout(LONG).unwrap()), ("old".to_owned(), "old".to_owned()));
    proxy.stall();
    let new = connect(&proxy);
    for client in [&old, &new] {
        say(client, "held");
        assert!(is_silent(client));
    }
    assert!(hears.try_recv().is_err(), "nothing has passed");
    proxy.resume();
    assert_eq!((hear(&old), hear(&new)), ("held".to_owned(), "held".to_owned()));
}

#[test]
fn held_replies_are_kept_back() {
    let (server, hears) = echo();
    let proxy = Proxy::start(server);
    let client = connect(&proxy);
    proxy.hold_replies();
    say(&client, "one");
    assert_eq!(hears.recv_timeout(LONG).unwrap(), "one");
    assert!(is_silent(&client));
    proxy.resume();
    assert_eq!(hear(&client), "one");
}

#[test]
fn what_a_lost_client_has_sent_is_delivered_later() {
    let (server, hears) = echo();
    let proxy = Proxy::start(server);
    let client = connect(&proxy);
    say(&client, "one");
    assert_eq!((hear(&client), hears.recv_timeout(LONG).unwrap()), ("one".to_owned(), "one".to_owned()));
    proxy.hold_requests();
    say(&client, "late");
    proxy.cut_clients();
    assert_eq!(hear(&client), "");
    assert!(hears.recv_timeout(A_WHILE).is_err(), "the server hears neither what was sent nor the end");
    // The next connection is another one.
    let next = connect(&proxy);
    proxy.resume();
    assert_eq!((hears.recv_timeout(LONG).unwrap().as_str(), hears.recv_timeout(LONG).unwrap().as_str()), ("late", ""));
    say(&next, "next");
    assert_eq!(hear(&next), "next");
}

#[test]
fn a_cut_loses_what_was_held() {
    let (server, hears) = echo();
    let proxy = Proxy::start(server);
    let client = connect(&proxy);
    say(&client, "one");
    assert_eq!((hear(&client), hears.recv_timeout(LONG).unwrap()), ("one".to_owned(), "one".to_owned()));
    proxy.hold_requests();
    say(&client, "lost");
    proxy.cut();
    assert_eq!(hears.recv_timeout(LONG).unwrap(), "", "the end, and nothing before it");
}

#[test]
fn delay_is_added_each_way() {
    let (server, _hears) = echo();
    let proxy = Proxy::start(server);
    let client = connect(&proxy);
    proxy.delay(Duration::from_millis(100));
    let before = Instant::now();
    say(&client, "one");
    assert_eq!(hear(&client), "one");
    let took = before.elapsed();
    assert!(took >= Duration::from_millis(200), "{took:?}");
}

#[test]
fn another_server_gets_the_next_connections() {
    let ((first, first_hears), (second, second_hears)) = (echo(), echo());
    let proxy = Proxy::start(first);
    let old = connect(&proxy);
    say(&old, "old");
    assert_eq!(first_hears.recv_timeout(LONG).unwrap(), "old");
    proxy.retarget(second);
    let new = connect(&proxy);
    say(&new, "new");
    assert_eq!(second_hears.recv_timeout(LONG).unwrap(), "new");
}

#[test]
fn what_is_much_passes_whole() {
    let (server, hears) = echo();
    let proxy = Proxy::start(server);
    let client = connect(&proxy);
    let sender = client.try_clone().unwrap();
    let much = 1_000_000;
    spawn(move || say(&sender, &"x".repeat(much)));
    let (mut come_back, mut buffer) = (0, vec![0; 10_000]);
    while come_back < much {
        come_back += (&client).read(&mut buffer).unwrap();
    }
    assert_eq!(come_back, much);
    assert_eq!(hears.try_iter().map(|text| text.len()).sum::<usize>(), much);
}
