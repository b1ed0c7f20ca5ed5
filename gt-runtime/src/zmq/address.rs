//! The address of a server: `HOST:PORT`, and the ZeroMQ endpoints for it.
//!
//! A server on this machine is reached over `ipc://`, by a socket file in a folder that only its
//! user may enter, or over tcp on the loopback interface. A server on another machine is reached
//! over tcp. The folder is the first of these that can be made private: `gt` in the user's
//! `XDG_RUNTIME_DIR`, `gt/run` in the user's cache folder, and `gt-UID` in the folder for temporary
//! files. A server uses the first, and clients look into each, because the two may have different
//! environments. This file opens no ZeroMQ socket.

use std::fmt;
use std::fs::DirBuilder;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use gt_ir::error::Hinted;

/// The longest path a Unix socket may have (`sun_path` less the final zero).
const MAX_IPC_PATH: usize = 107;
/// How long a server on another machine may take to answer.
const FAR: Duration = Duration::from_secs(10);

/// The error of an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// The text has no `:PORT`.
    NoPort(String),
    /// The text after the last colon is not a port number.
    BadPort(String, String),
    /// The text before the colon is not a host name.
    BadHost(String, String),
    /// The host name has no address.
    Unknown(String, String),
    /// No server accepts connections at the address.
    NoServer(Address, String),
}

impl Hinted for AddressError {
    fn message(&self) -> String {
        match self {
            AddressError::NoPort(text) => format!("`{text}` has no port"),
            AddressError::BadPort(text, port) => format!("`{port}` in `{text}` is not a port"),
            AddressError::BadHost(text, host) => format!("`{host}` in `{text}` is not a host"),
            AddressError::Unknown(host, why) => format!("cannot find the host `{host}`: {why}"),
            AddressError::NoServer(address, why) => format!("no server at {address}: {why}"),
        }
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            AddressError::NoPort(_) => "write HOST:PORT, such as localhost:12345".into(),
            AddressError::BadPort(..) => "a port is a number from 0 to 65535".into(),
            AddressError::BadHost(..) => {
                "a host is a name, an IPv4 address, or an IPv6 address in brackets".into()
            }
            AddressError::Unknown(..) => return None,
            AddressError::NoServer(address, _) => {
                format!("start one with `gt-cli server -p {}`", address.port)
            }
        })
    }
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.print(f)
    }
}

/// `HOST:PORT`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    /// A host name or a literal IP address (IPv6 without its brackets).
    pub host: String,
    /// A tcp port, which also names the socket file.
    pub port: u16,
}

impl Address {
    /// The address of this machine, at `port`.
    #[must_use]
    pub fn local(port: u16) -> Self {
        Address { host: "127.0.0.1".into(), port }
    }

    /// Whether the host is always this machine.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        self.host.eq_ignore_ascii_case("localhost")
            || self.host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }

    /// How long a server there may take to answer once it is reached, where a near one may take
    /// `near`. A network that loses packets brings them after some seconds.
    #[must_use]
    pub(crate) fn patience(&self, near: Duration) -> Duration {
        if self.is_loopback() { near } else { near.max(FAR) }
    }

    /// The endpoint to listen at. A host name becomes an IP address, because ZeroMQ binds only to
    /// IP addresses.
    pub fn bind_endpoint(&self) -> Result<String, AddressError> {
        let ip = self.resolve()?.next().map(|found| found.ip().to_string());
        let host = ip.unwrap_or_else(|| self.host.clone());
        Ok(Address { host, port: self.port }.tcp_endpoint())
    }

    /// The address as it is written in files: this machine has one name.
    #[must_use]
    pub fn canonical(&self) -> String {
        Address { host: self.plain_host().to_ascii_lowercase(), port: self.port }.to_string()
    }

    /// Whether it stands for all addresses of the machine.
    #[must_use]
    pub fn is_unspecified(&self) -> bool {
        self.host.parse::<IpAddr>().is_ok_and(|ip| ip.is_unspecified())
    }

    fn plain_host(&self) -> &str {
        if self.host.eq_ignore_ascii_case("localhost") { "127.0.0.1" } else { &self.host }
    }

    fn resolve(&self) -> Result<impl Iterator<Item = SocketAddr> + use<>, AddressError> {
        (self.plain_host(), self.port)
            .to_socket_addrs()
            .map_err(|e| AddressError::Unknown(self.host.clone(), e.to_string()))
    }

    /// `tcp://HOST:PORT`, to connect to.
    #[must_use]
    pub fn tcp_endpoint(&self) -> String {
        let host = self.plain_host();
        if host.contains(':') {
            format!("tcp://[{host}]:{}", self.port)
        } else {
            format!("tcp://{host}:{}", self.port)
        }
    }

    /// The endpoint for a peer to connect to: the socket file if a server of this user answers
    /// there, else tcp if a server accepts within `patience`, else an error.
    pub fn reachable_endpoint(&self, patience: Duration) -> Result<String, AddressError> {
        let mut paths = folders().filter(|folder| is_private(folder)).map(|f| file(&f, self.port));
        if self.is_loopback()
            && let Some(path) = paths.find(|path| UnixStream::connect(path).is_ok())
        {
            return Ok(ipc_endpoint(&path));
        }
        self.probe_tcp(patience).map(|()| self.tcp_endpoint())
    }

    fn probe_tcp(&self, patience: Duration) -> Result<(), AddressError> {
        let mut last = "the name has no address".to_owned();
        for address in self.resolve()? {
            match TcpStream::connect_timeout(&address, patience.max(Duration::from_millis(1))) {
                Ok(_) => return Ok(()),
                Err(e) => last = e.to_string().to_lowercase(),
            }
        }
        Err(AddressError::NoServer(self.clone(), last))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let (host, port) =
            text.trim().rsplit_once(':').ok_or_else(|| AddressError::NoPort(text.into()))?;
        let port = port.parse().map_err(|_| AddressError::BadPort(text.into(), port.into()))?;
        let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
        let good = match bare {
            Some(v6) => v6.parse::<std::net::Ipv6Addr>().is_ok(),
            None => {
                !host.is_empty()
                    && host.len() <= 253
                    && host
                        .chars()
                        .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'))
            }
        };
        if !good {
            return Err(AddressError::BadHost(text.into(), host.into()));
        }
        Ok(Address { host: bare.unwrap_or(host).into(), port })
    }
}

/// The endpoint of a socket file.
#[must_use]
pub fn ipc_endpoint(path: &Path) -> String {
    format!("ipc://{}", path.display())
}

/// The socket file of a server on this machine, in a folder that only this user may enter, which is
/// made if it is missing. None if there can be no such folder, or if the path is too long for a
/// socket or is not UTF-8; then only tcp is used.
#[must_use]
pub fn ipc_path(port: u16) -> Option<PathBuf> {
    let fits = |path: &PathBuf| path.as_os_str().len() <= MAX_IPC_PATH && path.to_str().is_some();
    // A folder that exists, or cannot be made, is judged like one that was made.
    let make =
        |folder: &PathBuf| drop(DirBuilder::new().recursive(true).mode(0o700).create(folder));
    let private = folders().inspect(make).filter(|folder| is_private(folder));
    private.map(|folder| file(&folder, port)).find(fits)
}

fn file(folder: &Path, port: u16) -> PathBuf {
    folder.join(format!("{port}.ipc"))
}

/// The folders for socket files, the best first. Another user may have taken the last.
fn folders() -> impl Iterator<Item = PathBuf> {
    let named = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    let home = || std::env::home_dir().filter(|home| home.is_dir());
    let cache = named("XDG_CACHE_HOME").or_else(|| Some(home()?.join(".cache")));
    let runtime = named("XDG_RUNTIME_DIR").filter(|folder| is_private(folder));
    let temporary = std::env::temp_dir().join(format!("gt-{}", user_id()));
    let own = [runtime.map(|f| f.join("gt")), cache.map(|f| f.join("gt/run"))];
    own.into_iter().flatten().chain([temporary])
}

/// Whether a folder belongs to this user, and nobody else may enter it.
fn is_private(folder: &Path) -> bool {
    std::fs::symlink_metadata(folder)
        .is_ok_and(|found| found.is_dir() && found.uid() == user_id() && found.mode() & 0o077 == 0)
}

/// The user of this process: the owner of its entry in /proc, or without /proc of the home folder.
fn user_id() -> u32 {
    let owner = |path: &Path| std::fs::metadata(path).ok().map(|m| m.uid());
    owner(Path::new("/proc/self"))
        .or_else(|| std::env::home_dir().and_then(|home| owner(&home)))
        .unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: &str) {
        let got = match text.parse::<Address>() {
            Ok(a) => format!(
                "{a} {} {}",
                a.tcp_endpoint(),
                if a.is_loopback() { "local" } else { "remote" }
            ),
            Err(e) => e.to_string().lines().next().unwrap().to_owned(),
        };
        assert_eq!(got, expect, "{text}");
    }

    #[test]
    fn addresses_parse_or_say_why_not() {
        check("localhost:12345", "localhost:12345 tcp://127.0.0.1:12345 local");
        check("127.0.0.1:1", "127.0.0.1:1 tcp://127.0.0.1:1 local");
        check("[::1]:7", "[::1]:7 tcp://[::1]:7 local");
        check("gpu-3.lab:9000", "gpu-3.lab:9000 tcp://gpu-3.lab:9000 remote");
        check("localhost", "`localhost` has no port");
        check("localhost:", "`` in `localhost:` is not a port");
        check("localhost:65536", "`65536` in `localhost:65536` is not a port");
        check("localhost:-1", "`-1` in `localhost:-1` is not a port");
        check(":12", "`` in `:12` is not a host");
        check("a b:12", "`a b` in `a b:12` is not a host");
        check("::1:12", "`::1` in `::1:12` is not a host");
        check("[zz]:12", "`[zz]` in `[zz]:12` is not a host");
    }

    #[test]
    fn nobody_home_is_named() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let error = Address::local(free)
            .reachable_endpoint(Duration::from_secs(1))
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with(&format!("no server at 127.0.0.1:{free}: connection refused")),
            "{error}"
        );
        assert!(error.contains(&format!("gt-cli server -p {free}")), "{error}");
    }

    #[test]
    fn socket_files_lie_in_a_private_folder() {
        let Some(path) = ipc_path(4242) else { return };
        assert_eq!(std::fs::metadata(path.parent().unwrap()).unwrap().mode() & 0o777, 0o700);
    }
}
