//! Machines with addresses of their own: network namespaces behind a router, each with a link to
//! it. Links can be slow and lose packets, be cut between two machines, or be unplugged.
//!
//! Everything is inside namespaces that only their holders keep alive, and the holders end with the
//! test, whether it passes or fails. Nothing travels outside of the namespaces. Where the system
//! does not permit namespaces of one's own, there is no network, and standard error says so.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};

use crate::process::{Cluster, Folder, Process, program};

/// How packets travel between a machine and the router.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Links {
    /// As fast as the system is.
    Fast,
    /// Slowly, and some not at all: in each direction 5 ms, and 1 of 100 packets is lost. A system
    /// that cannot delay packets has links of 100 Mbit/s that lose as many.
    Slow,
}

/// The commands that make a link slow, for systems that delay packets.
const DELAY: &[&str] = &["tc qdisc add dev LINK root netem delay 5ms loss 1%"];
/// The same for other systems. Random packets, chosen by a filter, enter a bucket that is too small
/// for any.
const LOSS: &[&str] = &[
    "tc qdisc add dev LINK root handle 1: htb default 1",
    "tc class add dev LINK parent 1: classid 1:1 htb rate 100mbit quantum 1500",
    "tc class add dev LINK parent 1: classid 1:2 htb rate 100mbit quantum 1500",
    "tc qdisc add dev LINK parent 1:2 tbf rate 8kbit burst 10 limit 10",
    "tc filter add dev LINK parent 1: bpf flowid 1:2 bytecode \
     4,32;0;0;4294963256,37;1;0;42949672,6;0;0;4294967295,6;0;0;0",
];

/// Machine `k` has the address `10.77.k.2`, and the router `10.77.k.1` on that link. The links'
/// names are `g0`, `g1` and so on at the router, and `eth0` at the machines.
pub(crate) struct Network {
    router: Child,
    machines: Vec<Child>,
}

impl Network {
    /// So many machines, if the system permits them.
    pub(crate) fn new(n: usize, links: Links) -> Option<Network> {
        let Some(network) = Network::made(n) else {
            tell("skipped: this system permits no networks of one's own");
            return None;
        };
        if links == Links::Slow && !network.slow() {
            tell("skipped: this system has no slow links");
            return None;
        }
        Some(network)
    }

    fn made(n: usize) -> Option<Network> {
        let mut unshare = Command::new("unshare");
        unshare.args(["--user", "--map-root-user", "--net"]);
        let forward = "ip link set lo up && echo 1 > /proc/sys/net/ipv4/ip_forward";
        let mut all = Network { router: hold(unshare, forward)?, machines: Vec::new() };
        for k in 0..n {
            let mut unshare = enter(&all.router);
            unshare.args(["unshare", "--net"]);
            all.machines.push(hold(unshare, "ip link set lo up")?);
            all.link(k)?;
        }
        Some(all)
    }

    /// A link between the router and a machine.
    fn link(&self, k: usize) -> Option<()> {
        let (machine, here) = (&self.machines[k], &self.router);
        let id = machine.id();
        done(here, &format!("ip link add g{k} type veth peer name eth0 netns {id}"))?;
        done(here, &format!("ip addr add 10.77.{k}.1/24 dev g{k}"))?;
        done(here, &format!("ip link set g{k} up"))?;
        done(machine, &format!("ip addr add 10.77.{k}.2/24 dev eth0"))?;
        done(machine, "ip link set eth0 up")?;
        done(machine, &format!("ip route add default via 10.77.{k}.1"))
    }

    /// Whether all links could be made slow, in both directions.
    fn slow(&self) -> bool {
        let ends = self.machines.iter().enumerate().flat_map(|(k, machine)| {
            [(machine, "eth0".to_owned()), (&self.router, format!("g{k}"))]
        });
        ends.into_iter().all(|(holder, link)| {
            let all = |commands: &[&str]| {
                commands
                    .iter()
                    .all(|command| done(holder, &command.replace("LINK", &link)).is_some())
            };
            all(DELAY) || all(LOSS)
        })
    }

    /// A command that starts a program on a machine.
    pub(crate) fn on(&self, k: usize, path: &str) -> Command {
        let mut command = enter(&self.machines[k]);
        command.arg(program(path));
        command
    }

    /// Starts a program on a machine, for the user whose keys are in a folder.
    pub(crate) fn start(
        &self,
        k: usize,
        (path, words): (&str, &[&str]),
        keys: &Folder,
        env: &[(&str, &str)],
    ) -> Process {
        let home = keys.path("");
        let env = [env, &[("HOME", &*home)]].concat();
        Process::start_by(self.on(k, path), path, words, &env)
    }

    /// A server on the first machine, and a worker on each of the `n` machines after it, `w1` on
    /// machine 1.
    pub(crate) fn cluster(&self, n: usize, keys: &Folder) -> Cluster {
        self.cluster_with(n, keys, &[], &[])
    }

    /// As [`cluster`](Network::cluster), with words that all its commands get, and variables of the
    /// workers.
    pub(crate) fn cluster_with(
        &self,
        n: usize,
        keys: &Folder,
        more: &[&str],
        env: &[(&str, &str)],
    ) -> Cluster {
        let words = [&["server", "-p", "0", "--host", "10.77.0.2"], more].concat();
        let server = self.start(0, ("gt-cli", &words), keys, &[]);
        Cluster::of(server, n, |address, k| {
            let listen = format!("10.77.{}.2:0", k + 1);
            let words = [&["worker", "--connect", address, "--listen", &listen], more].concat();
            self.start(k + 1, ("gt-cli", &words), keys, env)
        })
    }

    /// From now on no packet arrives between two machines. Nobody is told.
    pub(crate) fn cut(&self, a: usize, b: usize) {
        for (from, to) in [(a, b), (b, a)] {
            let rule = format!("ip rule add from 10.77.{from}.2 to 10.77.{to}.2 blackhole");
            done(&self.router, &rule).unwrap();
        }
    }

    /// From now on no packet comes from a machine or arrives there.
    pub(crate) fn unplug(&self, k: usize) {
        done(&self.router, &format!("ip link set g{k} down")).unwrap();
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for holder in self.machines.iter_mut().chain([&mut self.router]) {
            let _ = holder.kill();
            let _ = holder.wait();
        }
    }
}

/// A command in the network of a process.
fn enter(holder: &Child) -> Command {
    let mut command = Command::new("nsenter");
    command.args(["--user", "--net", "--preserve-credentials", "--target"]);
    command.arg(holder.id().to_string());
    command
}

/// A process that holds a network of its own, once `setup` has succeeded there.
fn hold(mut unshare: Command, setup: &str) -> Option<Child> {
    let script = format!("{setup} && echo ready && exec sleep 600");
    unshare.args(["sh", "-c", &script]).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut holder = unshare.spawn().ok()?;
    let mut ready = String::new();
    BufReader::new(holder.stdout.take()?).read_line(&mut ready).ok()?;
    if ready != "ready\n" {
        let _ = holder.kill();
        let _ = holder.wait();
        return None;
    }
    Some(holder)
}

/// Runs a command in the network of a process. A semicolon stands for a space within a word. None
/// if the command fails.
fn done(holder: &Child, command: &str) -> Option<()> {
    let words = command.split_whitespace().map(|word| word.replace(';', " "));
    let output = enter(holder).args(words).output().ok()?;
    output.status.success().then_some(())
}

/// Says something to whoever runs the tests, although the test passes: the macros of the standard
/// library would keep it back.
fn tell(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
