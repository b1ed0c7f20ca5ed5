//! Locked doors: who may connect over tcp, and encryption of everything that travels there.
//!
//! A socket file lies in a folder that only its user may enter, so the operating system has
//! authenticated whoever connects there. Over tcp, loopback included, a handshake (Noise XX) comes
//! before the first packet. It proves to each side which key the other side has. From then on every
//! frame is encrypted and authenticated. Two workers share a secret instead (Noise NNpsk0).
//!
//! Guarantees: a [`Host`] passes on no byte of a peer without an authorized key. What strangers
//! leave unfinished is bounded in number, bytes and time, and they are answered at a bounded rate.
//! A [`Guest`] sends nothing to a server whose key it does not know. Apart from `keys`, which reads
//! and writes the files of keys, nothing here does I/O.

mod authorized;
mod error;
mod frame;
mod guest;
mod host;
mod keys;
mod noise;
mod seal;
#[cfg(test)]
mod tests;

pub use crate::roles::{Pass, Roles, User};
pub use authorized::{Authorized, Member};
pub use error::DoorError;
pub use guest::{Guest, Trust};
pub use host::{Heard, Host, Lock};
pub(crate) use keys::Stamp;
pub use keys::{KeyError, KeyFolder, VARIABLE};
pub use noise::{Name, Pair, PublicKey, derive, random};
pub use seal::Sealed;

/// The variable that allows connections without encryption.
pub const INSECURE: &str = "GT_INSECURE";

/// Whether the environment allows connections without encryption.
#[must_use]
pub fn insecure() -> bool {
    gt_settings::is_on(INSECURE)
}
