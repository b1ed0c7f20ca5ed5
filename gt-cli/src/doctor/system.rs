//! The parts of the system that GT uses: ports, ZeroMQ, the folder of compiled programs.

use super::report::{Finding, Section};
use gt_compiler::NativeConfig;
use gt_runtime::doors::KeyFolder;
use gt_runtime::zmq::{Address, library};
use serde_json::{Value, json};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

/// The timeout of a connection to a server.
const PATIENCE: Duration = Duration::from_secs(2);

/// Whether a server can start on this machine, and how.
pub(super) fn network(port: u16) -> Section {
    let mut section = Section::new("network");
    let free = TcpListener::bind(("127.0.0.1", port)).is_ok();
    let taken = (!free).then(|| {
        let what = format!("another program listens at port {port}, perhaps a server");
        Finding::advice(what, "gt-cli server -p 0 takes a free port")
    });
    let text = format!("{port} is {}", if free { "free" } else { "taken" });
    section.line("port", text, json!({ "number": port, "free": free }), taken);
    let (version, curve) = library();
    section.line("ZeroMQ", version.clone(), json!({ "version": version, "curve": curve }), None);
    keys(&mut section);
    section
}

/// The key with which programs connect and servers are known.
fn keys(section: &mut Section) {
    // Reading the key would make one.
    let made = |folder: &KeyFolder| folder.path().join("key").exists();
    let found = KeyFolder::of_user().and_then(|folder| match made(&folder) {
        true => Ok(Some((folder.own()?, folder))),
        false => Ok(None),
    });
    match found {
        Ok(None) => section.line("key", "none yet", Value::Null, None),
        Ok(Some((own, folder))) => {
            let print = own.public().fingerprint();
            let value = json!({ "fingerprint": print, "folder": folder.path() });
            section.line("key", format!("{print} in {}", folder.path().display()), value, None);
        }
        Err(error) => {
            let finding = Finding::of("keys", &error);
            section.line("key", "none", Value::Null, Some(finding));
        }
    }
}

/// Whether a server listens at an address.
pub(super) fn reach(address: &str) -> Option<Finding> {
    let parsed: Address = address.parse().ok()?;
    let fix = format!("gt-cli server -p {}, on that machine; or unset GT_CONNECT", parsed.port);
    let trouble =
        |why: String| Some(Finding::trouble(format!("no server at {address}: {why}"), fix));
    let resolved = match (parsed.host.as_str(), parsed.port).to_socket_addrs() {
        Ok(resolved) => resolved,
        Err(error) => return trouble(error.to_string()),
    };
    let mut last = "the name has no address".to_string();
    for place in resolved {
        match TcpStream::connect_timeout(&place, PATIENCE) {
            Ok(_) => return None,
            Err(error) => last = error.to_string(),
        }
    }
    trouble(last)
}

/// The folder of compiled programs, and its size.
pub(super) fn cache() -> Section {
    let mut section = Section::new("cache");
    let Some(folder) = NativeConfig::host().store else {
        section.line("folder", "none: compiled programs are not kept", Value::Null, None);
        return section;
    };
    section.say("folder", folder.display().to_string());
    let files = match std::fs::read_dir(&folder) {
        Ok(entries) => {
            entries.flatten().filter_map(|e| e.metadata().ok()).map(|m| m.len()).collect()
        }
        Err(_) => Vec::new(),
    };
    let bytes: u64 = files.iter().sum();
    let text =
        format!("{} file{}, {}", files.len(), if files.len() == 1 { "" } else { "s" }, size(bytes));
    let value = json!({ "files": files.len(), "bytes": bytes });
    section.line("holds", text, value, unusable(&folder));
    section
}

/// The problem of the folder, if there is one. A missing folder is made when it is needed.
fn unusable(folder: &Path) -> Option<Finding> {
    let there = folder.ancestors().find(|ancestor| ancestor.exists())?;
    let writable =
        std::fs::metadata(there).is_ok_and(|m| m.is_dir() && !m.permissions().readonly());
    let what = format!("compiled programs cannot be kept in {}", folder.display());
    (!writable)
        .then(|| Finding::advice(what, "GT_CACHE=FOLDER names another folder, GT_CACHE=off none"))
}

/// A number of bytes with a unit.
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = UNITS.iter().find(|(unit, _)| bytes >= *unit);
    unit.map_or(format!("{bytes} bytes"), |(unit, name)| {
        let tenths = bytes.saturating_mul(10) / unit;
        format!("{}.{} {name}", tenths / 10, tenths % 10)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_in_units() {
        assert_eq!(size(0), "0 bytes");
        assert_eq!(size(1536), "1.5 KiB");
        assert_eq!(size(3 << 30), "3.0 GiB");
    }

    #[test]
    fn nobody_answers_where_nobody_listens() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        assert_eq!(reach(&address), None);
        drop(listener);
        assert!(reach(&address).is_some());
    }
}
