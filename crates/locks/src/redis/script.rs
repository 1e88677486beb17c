//! The scripts, one for each operation: each is a turn of the law that runs alone, and one round trip.

use std::sync::LazyLock;

use redis::aio::ConnectionLike;
use redis::{Cmd, ErrorKind, RedisResult, ServerErrorKind, Value};

/// The one key that each script is told; it knows the others by its prefix. All have one hash tag, so that on a cluster
/// they are in one slot: names that are locked together have to be.
const LIFE_KEY: &str = "lockkeeper:{locks}:life";

/// Where each node is told who is to ask again: this, and its own name.
pub(super) const WAKE_CHANNEL: &str = "lockkeeper:{locks}:wake:";

macro_rules! script {
    ($file:literal) => {
        LazyLock::new(|| Script::new(concat!(include_str!("scripts/common.lua"), "\n", include_str!($file))))
    };
}

pub(super) static ASK: LazyLock<Script> = script!("scripts/ask.lua");
pub(super) static RENEW: LazyLock<Script> = script!("scripts/renew.lua");
pub(super) static RELEASE: LazyLock<Script> = script!("scripts/release.lua");
pub(super) static FORCE: LazyLock<Script> = script!("scripts/force.lua");
pub(super) static LIST: LazyLock<Script> = script!("scripts/list.lua");
pub(super) static MEET: LazyLock<Script> = script!("scripts/meet.lua");

/// A script: its text, and the hash that servers know it by.
#[derive(Debug)]
pub(super) struct Script {
    text: &'static str,
    hash: String,
}

impl Script {
    fn new(text: &'static str) -> Self {
        Self { text, hash: redis::Script::new(text).get_hash().to_owned() }
    }

    /// Runs it. A server that does not know it yet is sent the text.
    pub(super) async fn run(&self, connection: &mut impl ConnectionLike, args: &[Vec<u8>]) -> RedisResult<Value> {
        match ask(connection, &command("EVALSHA", &self.hash, args)).await {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {}
            answer => return answer,
        }
        ask(connection, &command("EVAL", self.text, args)).await
    }
}

async fn ask(connection: &mut impl ConnectionLike, command: &Cmd) -> RedisResult<Value> {
    connection.req_packed_command(command).await?.extract_error()
}

fn command(name: &str, script: &str, args: &[Vec<u8>]) -> Cmd {
    let mut command = redis::cmd(name);
    command.arg(script).arg(1).arg(LIFE_KEY).arg(args);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_are_those_of_the_law() {
        let line = format!("\nlocal FENCE_MAX = {}\n", lockkeeper_store::limits::FENCE_MAX);
        assert!(ASK.text.contains(&line));
        let line = format!("\nlocal GRANTS_AHEAD_MAX = {}\n", lockkeeper_store::limits::GRANTS_AHEAD_MAX);
        assert!(ASK.text.contains(&line));
        let line = format!("\nlocal AHEAD_MIN = {}\n", lockkeeper_store::limits::AHEAD_MIN.as_millis());
        assert!(ASK.text.contains(&line));
    }
}
