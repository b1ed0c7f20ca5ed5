//! What a connecting side brings to a server's door.

use std::fmt;

use super::Address;
use crate::doors::{DoorError, KeyFolder, Trust, insecure};

/// The connecting side's part of a lock.
#[derive(Clone, PartialEq, Eq)]
pub enum Entry {
    /// The user's keys.
    Keys,
    /// A secret that both sides know.
    Secret([u8; 32]),
    /// Nothing: the connection is not encrypted.
    Plain,
}

impl fmt::Debug for Entry {
    /// Without the secret, because debug output ends up in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Entry::Keys => "Keys",
            Entry::Secret(_) => "Secret",
            Entry::Plain => "Plain",
        })
    }
}

impl Entry {
    /// The entry that the environment asks for.
    #[must_use]
    pub fn from_environment() -> Entry {
        if insecure() { Entry::Plain } else { Entry::Keys }
    }

    /// What a guest of the server at an address brings, if the connection is encrypted.
    pub(super) fn trust(&self, address: &Address) -> Result<Option<Trust>, DoorError> {
        match self {
            Entry::Plain => Ok(None),
            Entry::Secret(secret) => Ok(Some(Trust::Secret(*secret))),
            Entry::Keys => {
                let folder = KeyFolder::of_user()?;
                let servers = folder.servers_at(&address.canonical())?;
                Ok(Some(Trust::Keys(folder.own()?, servers)))
            }
        }
    }
}
