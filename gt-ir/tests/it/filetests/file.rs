//! One filetest: its commands, and its lines.

use super::{run, texts};

/// A file under test.
pub(super) struct File {
    pub(super) lines: Vec<String>,
    commands: Vec<Command>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Command {
    Cat,
    Shape,
    Verify,
    Explain,
    Run,
}

impl File {
    pub(super) fn parse(text: &str) -> Result<File, String> {
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let commands = lines.iter().filter_map(|line| line.strip_prefix("; test "));
        let commands = commands.map(|command| match command.trim() {
            "cat" => Ok(Command::Cat),
            "shape" => Ok(Command::Shape),
            "verify" => Ok(Command::Verify),
            "explain" => Ok(Command::Explain),
            "run" => Ok(Command::Run),
            other => Err(format!("unknown command `test {other}`")),
        });
        let commands = commands.collect::<Result<Vec<Command>, String>>()?;
        if commands.is_empty() {
            return Err("no `; test` line".into());
        }
        Ok(File { lines, commands })
    }

    pub(super) fn text(&self) -> String {
        self.lines.iter().map(|line| format!("{line}\n")).collect()
    }

    pub(super) fn check(&self) -> Result<(), String> {
        let failures: Vec<String> = self
            .commands
            .iter()
            .filter_map(|command| {
                let result = match command {
                    Command::Cat => texts::cat(self),
                    Command::Shape => texts::shape(self),
                    Command::Verify => texts::verify(self),
                    Command::Explain => texts::explain(self),
                    Command::Run => run::run(self),
                };
                result.err().map(|failure| format!("test {command:?}: {failure}"))
            })
            .collect();
        if failures.is_empty() { Ok(()) } else { Err(failures.join("\n")) }
    }

    pub(super) fn bless(&mut self) -> Result<(), String> {
        for command in self.commands.clone() {
            match command {
                Command::Cat | Command::Shape => texts::bless_cat(self)?,
                Command::Verify => texts::bless_verify(self),
                Command::Explain => texts::bless_explain(self),
                Command::Run => run::bless(self)?,
            }
        }
        Ok(())
    }
}
