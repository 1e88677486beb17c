//! What is checked of a request before anything is read.

use std::collections::BTreeMap;

use lockkeeper_model::{Action, Command, Fingerprint, Refusal};
use sha2::{Digest, Sha256};

use super::{AtomicFailure, failed};
use crate::codec;
use crate::fences;
use crate::limits::MOVES_MAX;

/// Refuses what cannot be one request.
pub(super) fn check(commands: &[Command]) -> Result<(), AtomicFailure> {
    if commands.is_empty() || commands.len() > MOVES_MAX {
        let detail = format!("{} moves were given; 1 to {MOVES_MAX} are allowed", commands.len());
        return Err(Refusal::Malformed { detail }.into());
    }
    let mut keys: Vec<_> = commands.iter().map(|command| &command.instance).collect();
    keys.sort_unstable();
    if let Some(twice) = keys.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(Refusal::Malformed { detail: format!("{} is named twice; once is allowed", twice[0]) }.into());
    }
    let mut fences: BTreeMap<&str, i64> = BTreeMap::new();
    for (index, command) in commands.iter().enumerate() {
        codec::check_key(command).map_err(|refusal| failed(index, refusal))?;
        if matches!(command.action, Action::Start(_) | Action::Migrate(_)) {
            let detail = "a start, or a migration, cannot be one of several moves that happen together".to_owned();
            return Err(failed(index, Refusal::Malformed { detail }));
        }
        for (resource, fence) in fences::given(command) {
            let other = *fences.entry(resource).or_insert(fence);
            if other != fence {
                let detail = format!(
                    "{resource:?} has the fence {fence} here and {other} in another move: one is of a lost lock"
                );
                return Err(failed(index, Refusal::Malformed { detail }));
            }
        }
    }
    Ok(())
}

/// The fingerprint of the whole request, so that one move of it sent alone is another command.
pub(super) fn fingerprint(commands: &[Command]) -> Fingerprint {
    let mut whole = Sha256::new();
    for command in commands {
        // Neither a workflow's name nor an id holds a zero byte, and a fingerprint has a fixed length.
        whole.update(command.instance.to_string().as_bytes());
        whole.update([0]);
        whole.update(command.fingerprint());
    }
    whole.finalize().into()
}
