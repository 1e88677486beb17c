//! The flags that say who acts, and under which key.

use clap::Args;

use crate::input;

/// Who acts, and under which key.
#[derive(Debug, Args)]
pub(crate) struct SenderArgs {
    /// Act as this actor. With a token, the token needs the role `act_as`.
    #[arg(long = "as", value_name = "ACTOR", value_parser = input::name)]
    pub actor: Option<String>,
    /// The actor's roles, separated by commas.
    #[arg(long = "as-roles", value_name = "ROLES", requires = "actor", value_delimiter = ',', value_parser = input::name)]
    pub roles: Vec<String>,
    /// Idempotency key: under one key a command takes effect at most once. Without it a random one is used.
    #[arg(long, value_name = "KEY", value_parser = input::key)]
    pub key: Option<String>,
}

impl SenderArgs {
    /// The actor for the request's body.
    pub(crate) fn actor(&self) -> Option<serde_json::Value> {
        input::actor(self.actor.as_deref(), &self.roles)
    }

    /// The key given, or a new one.
    pub(crate) fn key_or_random(&self) -> String {
        self.key.clone().unwrap_or_else(input::random_key)
    }
}
