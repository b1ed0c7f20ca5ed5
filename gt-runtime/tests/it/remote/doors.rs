//! Two users of one machine: what each may do with the other's server over tcp.
//!
//! A user is a folder of keys. No user finds another one's socket files, nor in these tests the own
//! ones, so everything goes over tcp.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use gt_runtime::client::connect;
use gt_runtime::doors::{KeyFolder, Member, Roles};
use gt_runtime::log::Log;
use gt_runtime::server::{Server, ServerConfig};
use gt_runtime::worker::{Worker, WorkerConfig};
use gt_runtime::zmq::{Address, Exposure};

use super::running::child_address;
use super::runs_a_chain;
use crate::programs::Moody;

#[test]
fn child_server() {
    let Ok(file) = std::env::var("GT_TEST_FILE") else { return };
    let insecure = gt_runtime::doors::insecure();
    let exposure = if insecure { Exposure::Insecure } else { Exposure::Sealed };
    let config = ServerConfig { log: Log::off(), exposure, ..ServerConfig::local(0) };
    let server = Server::bind(config).unwrap();
    std::fs::write(format!("{file}.part"), server.address().to_string()).unwrap();
    std::fs::rename(format!("{file}.part"), file).unwrap();
    server.run(|line| writeln!(std::io::stderr(), "{line}").unwrap()).unwrap();
}

#[test]
fn child_program() {
    let Some(address) = child_address() else { return };
    let said = match connect(&address.to_string()) {
        Ok(session) => {
            runs_a_chain(&*session, 0.0);
            "it worked".to_owned()
        }
        Err(error) => error.to_string(),
    };
    writeln!(std::io::stderr(), "{said}").unwrap();
}

#[test]
fn child_joins() {
    let Some(address) = child_address() else { return };
    let config = WorkerConfig { log: Log::off(), ..WorkerConfig::new(address) };
    let worker = Worker::new(config).unwrap();
    let said = worker.serve(Moody::boxed(), |line| writeln!(std::io::stderr(), "{line}").unwrap());
    writeln!(
        std::io::stderr(),
        "{said:?} {}",
        said.as_ref().err().map_or(String::new(), |e| e.to_string())
    )
    .unwrap();
}

#[test]
fn child_asks() {
    let Some(address) = child_address() else { return };
    let said = match gt_runtime::status::ask(&address) {
        Ok(status) => format!("{} of {} sessions", status.sessions.len(), status.n_sessions),
        Err(error) => error.to_string(),
    };
    writeln!(std::io::stderr(), "{said}").unwrap();
}

/// A user of this machine.
pub(super) struct User(pub(super) PathBuf);

/// A process of a user, killed at the end.
pub(super) struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl User {
    pub(super) fn new(test: &str, name: &str) -> User {
        let folder = format!("doors-{}-{test}-{name}", std::process::id());
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(folder);
        std::fs::create_dir_all(&path).unwrap();
        User(path)
    }

    fn keys(&self) -> KeyFolder {
        KeyFolder::at(self.0.join("keys"))
    }

    fn command(&self, child: &str, n: usize) -> Command {
        let elsewhere = self.0.join(format!("tmp{n}"));
        std::fs::create_dir_all(&elsewhere).unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", &format!("remote::doors::{child}"), "--nocapture"]);
        for name in ["TMPDIR", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME", "HOME"] {
            command.env(name, &elsewhere);
        }
        command.env_remove("GT_INSECURE").env("GT_KEYS", self.keys().path());
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        command
    }

    /// May use a server of another user in a role.
    fn joins(&self, other: &User, address: &Address, roles: Roles) {
        let key = other.keys().own().unwrap().public();
        self.keys().trust(&address.canonical(), key).unwrap();
        let key = self.keys().own().unwrap().public();
        other.keys().add(Member { roles, key, name: String::new() }).unwrap();
    }

    pub(super) fn server(&self, insecure: bool) -> (Running, Address) {
        let file = self.0.join("address");
        let mut command = self.command("child_server", 0);
        command.env("GT_TEST_FILE", &file).stderr(Stdio::null());
        if insecure {
            command.env("GT_INSECURE", "1");
        }
        let server = Running(command.spawn().unwrap());
        for _ in 0..400 {
            if let Ok(text) = std::fs::read_to_string(&file) {
                return (server, text.parse().unwrap());
            }
            thread::sleep(Duration::from_millis(50));
        }
        panic!("the server never listened");
    }

    pub(super) fn worker(&self, address: &Address) -> Running {
        let mut command = self.command("child_joins", 1);
        command.env("GT_TEST_ADDRESS", address.to_string()).stderr(Stdio::null());
        Running(command.spawn().unwrap())
    }

    /// What a process says that ends by itself.
    fn says(&self, child: &str, address: &Address, env: &[(&str, &str)]) -> String {
        let mut command = self.command(child, 2);
        command.env("GT_TEST_ADDRESS", address.to_string()).envs(env.iter().copied());
        String::from_utf8_lossy(&command.output().unwrap().stderr).into_owned()
    }

    /// Runs a program until it says what is expected: the server reads its files once a second.
    pub(super) fn says_soon(&self, child: &str, address: &Address, expected: &str) {
        let mut said = String::new();
        for _ in 0..20 {
            said = self.says(child, address, &[]);
            if said.contains(expected) {
                return;
            }
            thread::sleep(Duration::from_millis(250));
        }
        panic!("it never said `{expected}`, but {said}");
    }
}

impl Drop for User {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_user_needs_no_flag_and_another_user_gets_nowhere_without_two_commands() {
    let [ann, bob] = ["ann", "bob"].map(|name| User::new("keys", name));
    let (_server, address) = ann.server(false);
    let _worker = ann.worker(&address);
    ann.says_soon("child_program", &address, "it worked");

    let said = bob.says("child_program", &address, &[]);
    let key = ann.keys().own().unwrap().public();
    assert!(said.contains(&format!("has a key that this program does not trust: {key}")), "{said}");
    assert!(said.contains(&format!("gt-cli keys trust {address} {key}")), "{said}");
    bob.keys().trust(&address.canonical(), key).unwrap();
    let key = bob.keys().own().unwrap().public();
    for child in ["child_program", "child_joins"] {
        let said = bob.says(child, &address, &[]);
        assert!(said.contains("does not know this program's key"), "{said}");
        assert!(said.contains(&format!("gt-cli keys add client {key}")), "{said}");
    }

    ann.keys().add(Member { roles: Roles::CLIENT, key, name: "bob".into() }).unwrap();
    bob.says_soon("child_program", &address, "it worked");
    let said = bob.says("child_joins", &address, &[]);
    assert!(said.contains("does not allow it to be a worker"), "{said}");
    ann.keys().revoke(|member| member.name == "bob").unwrap();
    bob.says_soon("child_program", &address, "does not know this program's key");
    ann.says_soon("child_program", &address, "it worked");
}

#[test]
fn a_monitor_sees_the_state_and_does_nothing_else() {
    let [ann, bob, eve] = ["ann", "bob", "eve"].map(|name| User::new("monitor", name));
    let (_server, address) = ann.server(false);
    let _worker = ann.worker(&address);
    bob.joins(&ann, &address, Roles::MONITOR);
    eve.joins(&ann, &address, Roles::WORKER);
    ann.says_soon("child_program", &address, "it worked");
    bob.says_soon("child_asks", &address, "0 of 0 sessions");
    let said = bob.says("child_program", &address, &[]);
    assert!(said.contains("does not allow it to be a client"), "{said}");
    let said = bob.says("child_joins", &address, &[]);
    assert!(said.contains("does not allow it to be a worker"), "{said}");
    let said = eve.says("child_asks", &address, &[]);
    assert!(said.contains("does not allow it to be a monitor"), "{said}");
}

#[test]
fn plain_and_encrypted_do_not_mix_and_each_side_says_why() {
    let ann = User::new("plain", "ann");
    let (_server, address) = ann.server(true);
    let said = ann.says("child_program", &address, &[]);
    assert!(said.contains("does not encrypt") && said.contains("GT_INSECURE=1"), "{said}");
    let plain = [("GT_INSECURE", "1")];
    let mut worker = ann.command("child_joins", 1);
    worker.env("GT_TEST_ADDRESS", address.to_string()).envs(plain).stderr(Stdio::null());
    let _worker = Running(worker.spawn().unwrap());
    assert!(ann.says("child_program", &address, &plain).contains("it worked"));

    let bob = User::new("plain", "bob");
    let (_server, address) = bob.server(false);
    let said = bob.says("child_program", &address, &plain);
    assert!(said.contains("takes encrypted connections only"), "{said}");
}
