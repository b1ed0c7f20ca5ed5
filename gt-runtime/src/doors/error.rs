//! Why a server could not be entered.

use std::fmt;

use gt_ir::error::Hinted;

use super::{KeyError, PublicKey};
use crate::wire::codec::WireError;

/// Why a server could not be entered.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DoorError {
    /// This program has no key.
    Keys(#[from] KeyError),
    /// The server has a key that this program does not trust.
    UnknownServer(String, PublicKey),
    /// The server does not know this program's key.
    Denied(String, PublicKey),
    /// The server answers without encryption.
    Plain(String),
    /// The server takes plain packets only of programs on its machine.
    Encrypted(String),
    /// The server did not answer the handshake.
    Silent(String),
    /// The server's answer is of another version, or damaged.
    Wire(String, WireError),
}

impl Hinted for DoorError {
    fn message(&self) -> String {
        match self {
            DoorError::Keys(why) => why.message(),
            DoorError::UnknownServer(address, key) => {
                format!("the server at {address} has a key that this program does not trust: {key}")
            }
            DoorError::Denied(address, _) => {
                format!("the server at {address} does not know this program's key")
            }
            DoorError::Plain(address) => {
                format!("the server at {address} does not encrypt: it was started with --insecure")
            }
            DoorError::Encrypted(address) => {
                format!("the server at {address} takes encrypted connections only")
            }
            DoorError::Silent(address) => {
                format!("the server at {address} does not answer the handshake")
            }
            DoorError::Wire(address, why) => {
                format!("the server at {address} answered the handshake: {}", why.message())
            }
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            DoorError::Keys(why) => why.hint(),
            DoorError::UnknownServer(address, key) => Some(format!(
                "compare the key with the one that `gt-cli keys show` prints on the server's \
                 machine; if they are equal: gt-cli keys trust {address} {key}"
            )),
            DoorError::Denied(_, key) => {
                Some(format!("on the server's machine: gt-cli keys add client {key} NAME"))
            }
            DoorError::Plain(_) => Some("on a network that you trust, set GT_INSECURE=1".into()),
            DoorError::Encrypted(_) => Some("leave out --insecure, and unset GT_INSECURE".into()),
            DoorError::Silent(_) => None,
            DoorError::Wire(_, why) => why.hint(),
        }
    }
}

impl fmt::Display for DoorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.print(f)
    }
}
