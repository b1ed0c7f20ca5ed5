//! `cargo xtask pictures`: the pictures of README.md and the guide, made anew: a timeline and a
//! screen of `gt-cli top`, of two programs that train on a server with two workers.

use crate::shell::{Step, cargo, folder_of, target_folder};
use anyhow::{Context, Result};
use clap::Args;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Where the pictures are.
const TIMELINE: &str = "docs/guide/src/timeline.svg";
const TOP: &str = "docs/guide/src/top.svg";

#[derive(Args)]
pub(crate) struct PicturesArgs {
    /// The profile of cargo
    #[arg(long, value_name = "PROFILE", default_value = "release")]
    profile: String,
}

pub(crate) fn pictures(args: &PicturesArgs) -> Result<()> {
    cargo(&["build", "--package", "gt-cli", "--profile", &args.profile]).run()?;
    let programs = ["--example", "digits", "--example", "gpt"];
    cargo(&["build", "--profile", &args.profile]).args(&programs).run()?;
    let folder = folder_of(&args.profile);
    let mut team = Team { folder: folder.clone(), address: String::new(), children: Vec::new() };
    let listening = team.start("gt-cli", &["server", "-p", "0", "--json"])?;
    let said: serde_json::Value = serde_json::from_str(&listening)?;
    let address = said["address"].as_str().context("the server told no address")?;
    team.address = address.to_owned();
    for name in ["node1", "node2"] {
        team.start("gt-cli", &["worker", "--connect", address, "--name", name, "--json"])?;
    }
    team.start("examples/digits", &["--epochs", "1000000", "--json"])?;
    team.start("examples/gpt", &["--steps", "1000000", "--interval", "2"])?;
    let cli = folder.join("gt-cli").to_string_lossy().into_owned();
    let events = target_folder().join("pictures.jsonl").to_string_lossy().into_owned();
    let of_server = ["--connect", address];
    Step::new(&cli, &["top", "--once", "--interval", "2", "--picture", TOP])
        .args(&of_server)
        .run()?;
    Step::new(&cli, &["trace", "-s", "0.2", "-o", &events]).args(&of_server).run()?;
    let title = "Two programs on two workers";
    Step::new(&cli, &["visualize", &events, "-o", TIMELINE, "--title", title]).run()
}

/// Programs that end with this value.
struct Team {
    folder: PathBuf,
    /// The server of the programs, once it listens.
    address: String,
    children: Vec<Child>,
}

impl Team {
    /// Starts a program, and returns the first line that it prints.
    fn start(&mut self, program: &str, words: &[&str]) -> Result<String> {
        let path = self.folder.join(program);
        let mut command = Command::new(&path);
        command
            .args(words)
            .env("GT_CONNECT", &self.address)
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
