//! Asking Redis one thing, for tests: a connection for each.
//!
//! Source: the protocol's second version, <https://redis.io/docs/latest/develop/reference/protocol-spec/>.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long an answer may take: commands of tests are quick, but the machine may be busy.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// What Redis answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Nothing.
    Nil,
    /// A number.
    Int(i64),
    /// A text, as it is.
    Bytes(Vec<u8>),
    /// A list.
    List(Vec<Reply>),
}

impl Reply {
    /// The text, if it is one.
    #[must_use]
    pub fn text(self) -> Option<String> {
        match self {
            Self::Bytes(bytes) => String::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// The number, if it is one.
    #[must_use]
    pub fn int(&self) -> Option<i64> {
        match self {
            Self::Int(int) => Some(*int),
            _ => None,
        }
    }

    /// The texts of a list, if it is one of texts.
    #[must_use]
    pub fn texts(self) -> Option<Vec<String>> {
        match self {
            Self::List(list) => list.into_iter().map(Self::text).collect(),
            _ => None,
        }
    }
}

pub(super) fn try_command(server: SocketAddr, words: &[&str]) -> Result<Reply, String> {
    ask(server, words).unwrap_or_else(|error| Err(error.to_string()))
}

/// The fields of `INFO`: `name:value`, one a line.
pub(super) fn fields(info: &str) -> impl Iterator<Item = (&str, &str)> {
    info.lines().filter_map(|line| line.split_once(':'))
}

fn ask(server: SocketAddr, words: &[&str]) -> io::Result<Result<Reply, String>> {
    let mut stream = TcpStream::connect_timeout(&server, ANSWER_MAX)?;
    stream.set_read_timeout(Some(ANSWER_MAX))?;
    stream.set_write_timeout(Some(ANSWER_MAX))?;
    let mut request = format!("*{}\r\n", words.len());
    for word in words {
        request += &format!("${}\r\n{word}\r\n", word.len());
    }
    stream.write_all(request.as_bytes())?;
    read(&mut BufReader::new(stream))
}

fn read(stream: &mut impl BufRead) -> io::Result<Result<Reply, String>> {
    let mut line = String::new();
    if stream.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let line = line.trim_end();
    let Some(kind) = line.chars().next() else { return Err(io::ErrorKind::InvalidData.into()) };
    let rest = &line[kind.len_utf8()..];
    let reply = match kind {
        '+' => Reply::Bytes(rest.into()),
        '-' => return Ok(Err(rest.to_owned())),
        ':' => Reply::Int(number(rest)?),
        '$' => match usize::try_from(number(rest)?) {
            Ok(length) => {
                let mut bytes = vec![0; length + 2];
                stream.read_exact(&mut bytes)?;
                bytes.truncate(length);
                Reply::Bytes(bytes)
            }
            Err(_) => Reply::Nil,
        },
        '*' => {
            let mut list = Vec::new();
            for _ in 0..number(rest)? {
                match read(stream)? {
                    Ok(item) => list.push(item),
                    Err(error) => return Ok(Err(error)),
                }
            }
            Reply::List(list)
        }
        _ => return Err(io::ErrorKind::InvalidData.into()),
    };
    Ok(Ok(reply))
}

fn number(text: &str) -> io::Result<i64> {
    text.parse().map_err(|_| io::ErrorKind::InvalidData.into())
}
