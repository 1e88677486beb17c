//! Where random choices come from.

/// The seed of this run: `LOCKKEEPER_SEED`, or always the same. Printed, so that a failure can be had again.
pub(crate) fn seed() -> u64 {
    let seed = number("LOCKKEEPER_SEED", 7070);
    println!("seed: LOCKKEEPER_SEED={seed}");
    seed
}

/// A number from the environment.
pub(crate) fn number(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|error| panic!("{name}={text}: {error}")),
        Err(_) => default,
    }
}
