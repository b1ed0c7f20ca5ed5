//! Two programs that train on a server with two workers: their timeline, and a screen of `gt-cli
//! top`. One keeps to a worker, the other spreads each batch over both.

use super::FOLDER;
use crate::shell::{Step, root, target_folder};
use anyhow::{Context, Result};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

pub(super) fn draw(folder: &Path) -> Result<()> {
    let team = Team::started(folder)?;
    let cli = folder.join("gt-cli").to_string_lossy().into_owned();
    let events = target_folder().join("pictures.jsonl").to_string_lossy().into_owned();
    let of_server = ["--connect", &team.address];
    let [top, timeline] = ["top", "timeline"].map(|name| format!("{FOLDER}/{name}.svg"));
    Step::new(&cli, &["top", "--once", "--interval", "2", "--picture", &top])
        .args(&of_server)
        .run()?;
    Step::new(&cli, &["trace", "-s", SECONDS, "-o", &events]).args(&of_server).run()?;
    let title = "Two programs on two workers";
    Step::new(&cli, &["visualize", &events, "-o", &timeline, "--title", title]).run()
}

/// The length of the timeline: some steps of each program.
const SECONDS: &str = "0.3";
/// After so long the steps of all programs are plans.
const WARM: Duration = Duration::from_secs(20);
/// Spreads the batches of `gpt` over two workers.
const SPREAD: &str = "examples/gpt/data_parallel.yaml";

/// Programs that end with this value.
struct Team {
    folder: PathBuf,
    /// The server of the programs, once it listens.
    address: String,
    children: Vec<Child>,
}

impl Team {
    /// A server, its workers, and two programs whose training has begun.
    fn started(folder: &Path) -> Result<Team> {
        let (folder, children) = (folder.to_owned(), Vec::new());
        let mut team = Team { folder, address: String::new(), children };
        let listening = team.start("gt-cli", &["server", "-p", "0", "--json"], &[])?;
        let said: serde_json::Value = serde_json::from_str(&listening)?;
        let address = said["address"].as_str().context("the server told no address")?.to_owned();
        for name in ["node1", "node2"] {
            let words = ["worker", "--connect", &address, "--name", name, "--json"];
            team.start("gt-cli", &words, &[])?;
        }
        team.address = address;
        team.start("examples/digits", &["--epochs", "1000000", "--json"], &[])?;
        let words = ["--steps", "1000000", "--interval", "200"];
        team.start("examples/gpt", &words, &[("GT_CONFIG", SPREAD)])?;
        std::thread::sleep(WARM);
        Ok(team)
    }

    /// Starts a program, and returns the first line that it prints.
    fn start(&mut self, program: &str, words: &[&str], env: &[(&str, &str)]) -> Result<String> {
        let path = self.folder.join(program);
        let mut command = Command::new(&path);
        command
            .args(words)
            .current_dir(root())
            .env("GT_CONNECT", &self.address)
            .envs(env.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let cannot = || format!("cannot start {}", path.display());
        let mut child = command.spawn().with_context(cannot)?;
        let out = child.stdout.take().with_context(cannot)?;
        self.children.push(child);
        let mut line = String::new();
        let mut out = BufReader::new(out);
        out.read_line(&mut line).with_context(cannot)?;
        // What it prints later is read, so that it does not wait for a reader.
        std::thread::spawn(move || out.lines().map_while(Result::ok).for_each(drop));
        Ok(line)
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        for child in &mut self.children {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
