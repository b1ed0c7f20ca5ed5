//! Random keys: in the names of connections, and in offers that only their receiver may use.

use crate::doors::{Name, random};

/// A random key, such as that of a peer, equal in the names of both its connections.
pub type Key = Name;

/// Sixteen bytes that nobody can guess.
#[must_use]
pub fn random_key() -> Key {
    random()
}
