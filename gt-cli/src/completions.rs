//! `gt-cli completions`, and the pages for `man` of `cargo xtask dist`: both are made from the
//! definition of the command line, so they have every command and flag that there is.

use crate::args::Cli;
use crate::news;
use anyhow::{Context, Result};
use clap_complete::Shell;
use std::path::Path;

/// The name under which programs are installed.
const NAME: &str = "gt-cli";

pub(crate) fn print(shell: Shell) -> Result<()> {
    news::print(script(shell)?.trim_end());
    Ok(())
}

fn script(shell: Shell) -> Result<String> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::definition(), NAME, &mut script);
    String::from_utf8(script).context("the completions are no text")
}

/// Writes `gt-cli.1`, `gt-cli-server.1` and so on.
pub(crate) fn write_pages(folder: &Path) -> Result<()> {
    let cannot = || format!("cannot write pages into {}", folder.display());
    std::fs::create_dir_all(folder).with_context(cannot)?;
    clap_mangen::generate_to(Cli::definition(), folder).with_context(cannot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum as _;

    #[test]
    fn completions_of_every_shell_have_all_commands_and_flags() {
        let definition = Cli::definition();
        let commands = definition.get_subcommands().filter(|command| !command.is_hide_set());
        let commands: Vec<&str> = commands.map(clap::Command::get_name).collect();
        for shell in Shell::value_variants() {
            let script = script(*shell).unwrap();
            for command in &commands {
                assert!(script.contains(command), "{shell} has no {command}");
            }
            assert!(script.contains("max-priority"), "{shell}");
        }
    }

    #[test]
    fn there_is_a_page_for_each_command_with_its_examples() {
        let folder = std::env::temp_dir().join(format!("gt-man-{}", std::process::id()));
        write_pages(&folder).unwrap();
        let page = std::fs::read_to_string(folder.join("gt-cli-trace.1")).unwrap();
        let n = std::fs::read_dir(&folder).unwrap().count();
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(page.contains("gt\\-cli visualize run.jsonl"), "{page}");
        assert!(n > 18, "{n} pages");
    }
}
