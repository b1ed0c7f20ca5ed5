//! The folder of keys of a user: `$GT_KEYS`, else `$XDG_CONFIG_HOME/gt`, else `~/.config/gt`.
//!
//! It holds `key`, the private key, which is made when it is first needed; `authorized`, the keys
//! that a server of this user knows; and `known_servers`, the keys of servers, as `HOST:PORT KEY`.
//! The folder is made for its user alone. A private key that others can read is refused, and so is
//! a file that others can write. Files are replaced as a whole, so that a reader never sees half of
//! one.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use gt_ir::error::Hinted;

use super::authorized::{self, Member};
use super::noise::random;
use super::{Authorized, Pair, PublicKey};

/// The variable that names the folder.
pub const VARIABLE: &str = "GT_KEYS";
/// The most bytes of a file.
const MAX_FILE: u64 = 16 << 20;

/// Why keys cannot be read or written.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum KeyError {
    /// There is no home folder, and no variable names a folder.
    NoFolder,
    /// The file or folder cannot be read or written.
    Io(PathBuf, String),
    /// Others may read or write it.
    Open(PathBuf, &'static str),
    /// The text is not the text of such a file.
    Damaged(PathBuf, String),
}

impl Hinted for KeyError {
    fn message(&self) -> String {
        match self {
            KeyError::NoFolder => "there is no folder for keys: no home folder is known".into(),
            KeyError::Io(path, why) => format!("keys at {}: {why}", path.display()),
            KeyError::Open(path, _) => {
                format!("{} is open to other users of this machine", path.display())
            }
            KeyError::Damaged(path, why) => format!("{}: {why}", path.display()),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            KeyError::NoFolder | KeyError::Io(..) => {
                Some(format!("set {VARIABLE} to a folder that this user can write"))
            }
            KeyError::Open(path, mode) => Some(format!("chmod {mode} {}", path.display())),
            KeyError::Damaged(..) => None,
        }
    }
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.print(f)
    }
}

/// A folder of keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyFolder(PathBuf);

/// When a file was changed last, to notice the next change.
pub(crate) type Stamp = Option<(SystemTime, u64, u64)>;

impl KeyFolder {
    /// The folder of this process's user.
    pub fn of_user() -> Result<KeyFolder, KeyError> {
        gt_settings::folder().map(KeyFolder).ok_or(KeyError::NoFolder)
    }

    /// The folder at a path.
    #[must_use]
    pub fn at(path: PathBuf) -> KeyFolder {
        KeyFolder(path)
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The user's own key. It is made if there is none.
    pub fn own(&self) -> Result<Pair, KeyError> {
        let path = self.0.join("key");
        let text = match self.read("key", 0o077, "600")? {
            Some(text) => text,
            None => {
                self.make()?;
                self.read("key", 0o077, "600")?.unwrap_or_default()
            }
        };
        let line = text.lines().find(|line| !line.starts_with('#')).unwrap_or_default();
        Pair::parse(line).ok_or_else(|| KeyError::Damaged(path, "it is no private key".into()))
    }

    /// Makes a key. If another process has made one in the meantime, that one stays.
    fn make(&self) -> Result<(), KeyError> {
        let text =
            format!("# Private key of GT: never give it away\n{}\n", Pair::new().secret_text());
        let (fresh, path) = (self.write_beside("key", &text)?, self.0.join("key"));
        let linked = fs::hard_link(&fresh, &path);
        let done = match linked {
            Err(e) if e.kind() != ErrorKind::AlreadyExists => fs::rename(&fresh, &path),
            _ => fs::remove_file(&fresh),
        };
        done.map_err(|e| KeyError::Io(path, e.to_string()))
    }

    /// The keys that a server of this user knows.
    pub fn members(&self) -> Result<Vec<Member>, KeyError> {
        let text = self.read("authorized", 0o022, "600")?.unwrap_or_default();
        authorized::parse(&text).map_err(|why| KeyError::Damaged(self.0.join("authorized"), why))
    }

    /// The keys that a server of this user knows, with the user's own.
    pub fn authorized(&self) -> Result<Authorized, KeyError> {
        Ok(Authorized::new(self.own()?.public(), self.members()?))
    }

    /// When the keys that a server knows were changed last.
    pub(crate) fn stamp(&self) -> Stamp {
        let found = fs::metadata(self.0.join("authorized")).ok()?;
        Some((found.modified().ok()?, found.len(), found.ino()))
    }

    /// Adds a key, or replaces the roles and the name of a known one.
    pub fn add(&self, member: Member) -> Result<(), KeyError> {
        let mut members = self.members()?;
        members.retain(|known| known.key != member.key);
        members.push(member);
        self.write_members(&members)
    }

    /// Removes the keys that `which` selects. Returns them.
    pub fn revoke(&self, which: impl Fn(&Member) -> bool) -> Result<Vec<Member>, KeyError> {
        let (gone, left): (Vec<_>, Vec<_>) = self.members()?.into_iter().partition(which);
        if !gone.is_empty() {
            self.write_members(&left)?;
        }
        Ok(gone)
    }

    fn write_members(&self, members: &[Member]) -> Result<(), KeyError> {
        let lines = members.iter().map(|member| format!("{member}\n"));
        self.replace("authorized", &lines.collect::<String>())
    }

    /// The keys of servers, by address.
    pub fn servers(&self) -> Result<Vec<(String, PublicKey)>, KeyError> {
        let text = self.read("known_servers", 0o022, "600")?.unwrap_or_default();
        let lines = text.lines().enumerate();
        let lines = lines.filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
        let server = |(n, line): (usize, &str)| {
            let damaged = |why: String| {
                KeyError::Damaged(self.0.join("known_servers"), format!("line {}: {why}", n + 1))
            };
            let (address, key) =
                line.trim().split_once(' ').ok_or_else(|| damaged("it has no key".into()))?;
            Ok((address.to_owned(), key.parse().map_err(damaged)?))
        };
        lines.map(server).collect()
    }

    /// The keys that the server at an address (`HOST:PORT`) may have.
    pub fn servers_at(&self, address: &str) -> Result<Vec<PublicKey>, KeyError> {
        let servers = self.servers()?.into_iter();
        Ok(servers.filter(|(known, _)| known == address).map(|(_, key)| key).collect())
    }

    /// Trusts the server at an address (`HOST:PORT`) to have a key, and no other key from now on.
    pub fn trust(&self, address: &str, key: PublicKey) -> Result<(), KeyError> {
        let mut servers = self.servers()?;
        servers.retain(|(known, _)| known != address);
        servers.push((address.to_owned(), key));
        let lines = servers.iter().map(|(address, key)| format!("{address} {key}\n"));
        self.replace("known_servers", &lines.collect::<String>())
    }

    /// Reads a file, unless others may do with it what the mask says.
    fn read(&self, name: &str, mask: u32, mode: &'static str) -> Result<Option<String>, KeyError> {
        let path = self.0.join(name);
        let io = |e: std::io::Error| KeyError::Io(path.clone(), e.to_string());
        let found = match fs::metadata(&path) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            found => found.map_err(io)?,
        };
        if found.mode() & mask != 0 {
            return Err(KeyError::Open(path, mode));
        }
        let folder = fs::metadata(&self.0).map_err(io)?;
        if folder.mode() & 0o022 != 0 {
            return Err(KeyError::Open(self.0.clone(), "700"));
        }
        if found.len() > MAX_FILE {
            return Err(KeyError::Damaged(path, "it is too large".into()));
        }
        fs::read_to_string(&path).map(Some).map_err(io)
    }

    fn replace(&self, name: &str, text: &str) -> Result<(), KeyError> {
        let (fresh, path) = (self.write_beside(name, text)?, self.0.join(name));
        fs::rename(fresh, &path).map_err(|e| KeyError::Io(path, e.to_string()))
    }

    /// Writes a new file beside the named one, for this user only.
    fn write_beside(&self, name: &str, text: &str) -> Result<PathBuf, KeyError> {
        let [a, b] = random::<2>();
        let path = self.0.join(format!(".{name}.{}.{a:02x}{b:02x}", std::process::id()));
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.0);
        let mut new = OpenOptions::new();
        new.write(true).create_new(true).mode(0o600);
        let written = made
            .and_then(|()| new.open(&path))
            .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()));
        written.map(|()| path.clone()).map_err(|e| KeyError::Io(path, e.to_string()))
    }
}
