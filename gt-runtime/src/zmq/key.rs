//! Random keys: in the names of connections, and in offers that only their receiver may use.

/// A random key.
pub type Key = [u8; 16];

/// Sixteen bytes that nobody can guess, because the hasher's keys are random.
#[must_use]
pub fn random_key() -> Key {
    use std::hash::{BuildHasher as _, RandomState};
    let half = || RandomState::new().hash_one(std::process::id()).to_le_bytes();
    let mut key = [0; 16];
    key[..8].copy_from_slice(&half());
    key[8..].copy_from_slice(&half());
    key
}
