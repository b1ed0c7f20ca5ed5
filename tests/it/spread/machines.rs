//! `examples/gpt` over machines with addresses of their own: network namespaces with links between
//! them that are slow and lose packets. Where the system does not permit namespaces, the tests say
//! so and check nothing.

use super::processes::{GPT, Run, embedded, endless, folder, run};
use crate::process::{Cluster, Folder, Process, program};
use std::process::{Child, Command, Output, Stdio};

/// Machines behind a router, each with a link to it. Machine `k` has the address `10.77.k.2`, and
/// the router `10.77.k.1` on that link. They end with the test.
struct Machines {
    router: Child,
    machines: Vec<Child>,
}

impl Machines {
    /// So many machines, if the system permits them.
    fn new(n: usize) -> Option<Machines> {
        let mut unshare = Command::new("unshare");
        unshare.args(["--user", "--map-root-user", "--net"]);
        let forward = "ip link set lo up && echo 1 > /proc/sys/net/ipv4/ip_forward";
        let mut all = Machines { router: hold(unshare, forward)?, machines: Vec::new() };
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
        done(machine, &format!("ip route add default via 10.77.{k}.1"))?;
        if done(machine, "tc qdisc add dev eth0 root netem delay 1ms loss 1%").is_none() {
            tell("this system has no slow links: the links are fast");
        }
        Some(())
    }

    /// A command that starts a program on a machine.
    fn on(&self, k: usize, path: &str) -> Command {
        let mut command = enter(&self.machines[k]);
        command.arg(program(path));
        command
    }

    /// A server on the first machine, and a worker on each of the others.
    fn cluster(&self, keys: &Folder) -> Cluster {
        let env = [("HOME", &*keys.path(""))];
        let server = self.on(0, "gt-cli");
        let words = ["server", "-p", "0", "--host", "10.77.0.2"];
        let server = Process::start_by(server, "gt-cli", &words, &env);
        Cluster::of(server, self.machines.len() - 1, |address, k| {
            let listen = format!("10.77.{}.2:0", k + 1);
            let words = ["worker", "--connect", address, "--listen", &listen];
            Process::start_by(self.on(k + 1, "gt-cli"), "gt-cli", &words, &env)
        })
    }
}

impl Drop for Machines {
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
    let mut stdout = std::io::BufReader::new(holder.stdout.take()?);
    std::io::BufRead::read_line(&mut stdout, &mut ready).ok()?;
    if ready != "ready\n" {
        let _ = holder.kill();
        let _ = holder.wait();
        return None;
    }
    Some(holder)
}

/// Runs a command in the network of a process. None if it fails.
fn done(holder: &Child, command: &str) -> Option<()> {
    let output: Output = enter(holder).args(command.split(' ')).output().ok()?;
    output.status.success().then_some(())
}

#[expect(clippy::print_stderr, reason = "whoever reads the output is to know what was not checked")]
fn tell(text: &str) {
    eprintln!("{text}");
}

/// As [`Machines::new`]. Says so if there are none.
fn machines(n: usize) -> Option<Machines> {
    let machines = Machines::new(n);
    if machines.is_none() {
        tell("this system permits no networks of one's own: nothing is checked");
    }
    machines
}

#[test]
fn a_gpt_has_the_same_bits_on_machines_with_addresses_of_their_own() {
    let Some(machines) = machines(3) else { return };
    let folder = folder("machines");
    let cluster = machines.cluster(&folder);
    let there = ("GT_CONNECT", &*cluster.address);
    for form in ["data_parallel", "tensor_parallel"] {
        let here = embedded(&folder, form, "2");
        let run = run(&folder, form, there, 0);
        let mut command = machines.on(0, GPT);
        command.env("HOME", folder.path(""));
        assert!(run.finish(run.start_by(command)) == here, "{form} has other bits there");
    }
}

#[test]
fn a_machine_behind_a_cut_cable_is_lost_and_the_rest_lives_on() {
    let Some(machines) = machines(3) else { return };
    let folder = folder("cable");
    let cluster = machines.cluster(&folder);
    let place = ("GT_CONNECT", &*cluster.address);
    let start = |run: &Run<'_>| {
        let mut command = machines.on(0, GPT);
        command.env("HOME", folder.path(""));
        run.start_by(command)
    };
    let mut long = start(&endless(&folder, place));
    long.until("step     4");
    done(&machines.router, "ip link set g2 down").unwrap();
    let (_, said) = long.finish().bad();
    assert!(said.contains("worker w2 (") && said.contains("was lost"), "{said}");
    let again = run(&folder, "", place, 1);
    again.finish(start(&again));
}
