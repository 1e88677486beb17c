//! What a lease is called.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};
use uuid::Uuid;

/// The name of one try to get a lease, and of the lease if it is got. Whoever knows it can renew and end the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LeaseId(Uuid);

impl LeaseId {
    /// A new one, drawn at random.
    pub fn random() -> Self {
        Self(Uuid::new_v4())
    }

    /// That of a client's own name for its try: the same owner and attempt always have the same.
    pub fn of_attempt(owner: &str, attempt: &str) -> Self {
        let mut hash = Sha256::new();
        // The length keeps ("a", "bc") and ("ab", "c") apart.
        hash.update((owner.len() as u64).to_be_bytes());
        hash.update(owner);
        hash.update(attempt);
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&hash.finalize()[..16]);
        Self(uuid::Builder::from_custom_bytes(bytes).into_uuid())
    }

    /// Its 128 bits.
    pub fn as_uuid(&self) -> &Uuid {
        &self.0
    }
}

impl From<Uuid> for LeaseId {
    fn from(id: Uuid) -> Self {
        Self(id)
    }
}

impl fmt::Display for LeaseId {
    /// Thirty-two hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.simple())
    }
}

impl FromStr for LeaseId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Uuid::parse_str(text).map(Self)
    }
}
