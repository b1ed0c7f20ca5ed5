//! Keys and handshakes, by the crate `snow`. What a handshake agrees on becomes [`Seals`].

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::rand::SecureRandom as _;
use snow::resolvers::{CryptoResolver as _, DefaultResolver};
use snow::{Builder, HandshakeState};

use super::seal::Seals;
use crate::wire::PROTOCOL;

/// Both sides have keys, and each learns the other's. The initiator learns the responder's first,
/// so it can leave before it has shown its own.
const WITH_KEYS: &str = "Noise_XX_25519_ChaChaPoly_SHA256";
/// Both sides know a secret, and have no keys.
const WITH_SECRET: &str = "Noise_NNpsk0_25519_ChaChaPoly_SHA256";
/// The most bytes of a message of a handshake.
pub(super) const MAX_MESSAGE: usize = 256;

/// The random name that the connections of one peer share.
pub type Name = [u8; 16];

/// Fills an array with random bytes of the operating system.
#[must_use]
pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let filled = ring::rand::SystemRandom::new().fill(&mut bytes);
    filled.expect("the operating system gives random bytes");
    bytes
}

/// A secret made of another one, for one purpose.
#[must_use]
pub fn derive(purpose: &str, secret: &[u8]) -> [u8; 32] {
    let bytes = [purpose.as_bytes(), &[0], secret].concat();
    let hash = ring::digest::digest(&ring::digest::SHA256, &bytes);
    let mut derived = [0; 32];
    derived.copy_from_slice(hash.as_ref());
    derived
}

/// A public key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PublicKey(pub [u8; 32]);

impl PublicKey {
    /// Its fingerprint: short enough to compare by eye.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let hash = ring::digest::digest(&ring::digest::SHA256, &self.0);
        let groups = hash.as_ref().chunks(2).take(6);
        groups.map(|pair| format!("{:02x}{:02x}", pair[0], pair[1])).collect::<Vec<_>>().join("-")
    }

    /// A number that is equal for equal keys, and above the numbers with a meaning of their own.
    pub(super) fn number(&self) -> u64 {
        let hash = ring::digest::digest(&ring::digest::SHA256, &self.0);
        let first = hash.as_ref().iter().take(8).fold(0, |all, &byte| all << 8 | u64::from(byte));
        first | 1 << 63
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&BASE64.encode(self.0))
    }
}

impl FromStr for PublicKey {
    type Err = String;

    fn from_str(text: &str) -> Result<PublicKey, String> {
        let bytes = BASE64.decode(text.trim()).ok().and_then(|bytes| bytes.try_into().ok());
        bytes.map(PublicKey).ok_or_else(|| {
            format!("`{}` is no key of 44 characters", text.chars().take(64).collect::<String>())
        })
    }
}

/// A private key with its public key. It has no debug output, because that ends up in logs.
#[derive(Clone)]
pub struct Pair {
    private: [u8; 32],
    public: PublicKey,
}

impl Pair {
    /// A new key.
    #[must_use]
    pub fn new() -> Pair {
        Pair::of(random())
    }

    /// The pair of a private key.
    fn of(private: [u8; 32]) -> Pair {
        let curve = DefaultResolver.resolve_dh(&snow::params::DHChoice::Curve25519);
        let mut curve = curve.expect("the crate is built with this curve");
        curve.set(&private);
        let mut public = [0; 32];
        public.copy_from_slice(curve.pubkey());
        Pair { private, public: PublicKey(public) }
    }

    /// The public key.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        self.public
    }

    /// The private key as the text of its file.
    pub(super) fn secret_text(&self) -> String {
        BASE64.encode(self.private)
    }

    /// The pair of the text of a file.
    pub(super) fn parse(text: &str) -> Option<Pair> {
        let bytes = BASE64.decode(text.trim()).ok()?;
        Some(Pair::of(bytes.try_into().ok()?))
    }
}

impl Default for Pair {
    fn default() -> Self {
        Pair::new()
    }
}

/// What a side brings to a handshake.
pub(super) enum Proof<'a> {
    Keys(&'a Pair),
    Secret(&'a [u8; 32]),
}

/// A handshake under way.
pub(super) struct Handshake(HandshakeState);

impl Handshake {
    /// The side that begins, on the connection of this name.
    pub(super) fn initiator(proof: Proof<'_>, name: &Name) -> Option<Handshake> {
        build(proof, name, |builder| builder.build_initiator())
    }

    /// The other side.
    pub(super) fn responder(proof: Proof<'_>, name: &Name) -> Option<Handshake> {
        build(proof, name, |builder| builder.build_responder())
    }

    /// The next message to send. None if it is not this side's turn.
    pub(super) fn write(&mut self) -> Option<Vec<u8>> {
        let mut message = vec![0; MAX_MESSAGE];
        let n_bytes = self.0.write_message(&[], &mut message).ok()?;
        message.truncate(n_bytes);
        Some(message)
    }

    /// Takes the next message. None if it is not the message of the other side.
    pub(super) fn read(&mut self, message: &[u8]) -> Option<()> {
        let mut nothing = [0; MAX_MESSAGE];
        let n_bytes = self.0.read_message(message, &mut nothing).ok()?;
        (n_bytes == 0).then_some(())
    }

    /// The key that the other side has proved to have.
    pub(super) fn other(&self) -> Option<PublicKey> {
        self.0.get_remote_static()?.try_into().ok().map(PublicKey)
    }

    /// The keys agreed on. None before the last message.
    pub(super) fn finish(mut self) -> Option<Seals> {
        if !self.0.is_handshake_finished() {
            return None;
        }
        let (from_initiator, from_responder) = self.0.dangerously_get_raw_split();
        match self.0.is_initiator() {
            true => Some(Seals::new(&from_initiator, &from_responder)),
            false => Some(Seals::new(&from_responder, &from_initiator)),
        }
    }
}

/// Builds a side. The name of the connection and the version are part of what both must agree on.
fn build(
    proof: Proof<'_>,
    name: &Name,
    side: impl FnOnce(Builder<'_>) -> Result<HandshakeState, snow::Error>,
) -> Option<Handshake> {
    let prologue: Vec<u8> =
        b"gt".iter().chain(&PROTOCOL.to_le_bytes()).chain(name).copied().collect();
    let (pattern, keys, secret) = match proof {
        Proof::Keys(pair) => (WITH_KEYS, Some(pair), None),
        Proof::Secret(secret) => (WITH_SECRET, None, Some(secret)),
    };
    let mut builder = Builder::new(pattern.parse().ok()?).prologue(&prologue).ok()?;
    if let Some(pair) = keys {
        builder = builder.local_private_key(&pair.private).ok()?;
    }
    if let Some(secret) = secret {
        builder = builder.psk(0, secret).ok()?;
    }
    side(builder).ok().map(Handshake)
}
