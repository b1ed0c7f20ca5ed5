//! One file: its lines, the commands it asks for, and the texts it expects them to print.

use super::difference;

/// What begins a line that asks for a command.
const TEST: &str = "; test ";
/// What begins a line that names the command whose text follows.
const SECTION: &str = ";> ";
/// What begins a line of that text.
const TEXT: &str = ";|";

/// A command of filetests.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// The first word of its `; test` line.
    pub name: &'static str,
    /// What it does.
    pub action: Action,
}

/// What a command does with a file.
#[derive(Clone, Copy, Debug)]
pub enum Action {
    /// Checks lines of the tape itself, which the second function rewrites.
    Lines(fn(&File) -> Result<(), String>, fn(&mut File) -> Result<(), String>),
    /// Prints a text of the tape and the argument of the command; the file holds the text it
    /// expects.
    Text(fn(&str, &str) -> Result<String, String>),
}

/// A file under test.
#[derive(Clone, Debug)]
pub struct File {
    /// Its lines.
    pub lines: Vec<String>,
    asked: Vec<Asked>,
}

/// A command as a file asks for it.
#[derive(Clone, Debug)]
struct Asked {
    command: Command,
    /// Name and argument.
    words: String,
}

impl Asked {
    fn argument(&self) -> &str {
        self.words[self.command.name.len()..].trim()
    }
}

impl File {
    /// The file of this text.
    ///
    /// # Errors
    /// It asks for no command, or for one that is not among `commands`.
    pub fn parse(text: &str, commands: &[Command]) -> Result<File, String> {
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let asked = lines.iter().filter_map(|line| line.strip_prefix(TEST)).map(|words| {
            let name = words.split_whitespace().next().unwrap_or_default();
            let command = commands.iter().find(|command| command.name == name);
            let command = command.ok_or_else(|| {
                let known: Vec<&str> = commands.iter().map(|command| command.name).collect();
                format!("unknown command `test {name}`; this folder knows {}", known.join(", "))
            })?;
            Ok(Asked { command: *command, words: words.trim().to_owned() })
        });
        let asked = asked.collect::<Result<Vec<Asked>, String>>()?;
        if asked.is_empty() {
            return Err(format!("no line begins with `{TEST}`"));
        }
        Ok(File { lines, asked })
    }

    /// The whole file.
    pub fn text(&self) -> String {
        self.lines.iter().map(|line| format!("{line}\n")).collect()
    }

    /// The file without the texts it expects.
    pub fn program(&self) -> String {
        let end = self.lines.iter().position(|line| is_expected(line));
        let lines = &self.lines[..end.unwrap_or(self.lines.len())];
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        format!("{}\n", text.trim_end())
    }

    /// Runs its commands.
    ///
    /// # Errors
    /// Every expectation that does not hold.
    pub fn check(&self) -> Result<(), String> {
        let failures = self.asked.iter().filter_map(|asked| {
            let failure = match asked.command.action {
                Action::Lines(check, _) => check(self),
                Action::Text(print) => self.prints(asked, print),
            };
            failure.err().map(|failure| format!("test {}: {failure}", asked.words))
        });
        let unasked = self.sections().into_iter().filter_map(|(words, _)| {
            let known = self.asked.iter().any(|asked| asked.words == words);
            (!known).then(|| format!("the text of `{words}`, which no `{TEST}` line asks for"))
        });
        let failures: Vec<String> = failures.chain(unasked).collect();
        if failures.is_empty() { Ok(()) } else { Err(failures.join("\n")) }
    }

    /// Rewrites its expectations to what is found.
    ///
    /// # Errors
    /// A command cannot run at all.
    pub fn bless(&mut self) -> Result<(), String> {
        let program = self.program();
        let mut texts = Vec::new();
        for asked in self.asked.clone() {
            match asked.command.action {
                Action::Lines(_, rewrite) => rewrite(self)?,
                Action::Text(print) => {
                    let words = &asked.words;
                    let found = print(&program, asked.argument());
                    let found = found.map_err(|failure| format!("test {words}: {failure}"))?;
                    texts.extend([String::new(), format!("{SECTION}{words}")]);
                    let line = |line: &str| format!("{TEXT} {line}").trim_end().to_owned();
                    texts.extend(found.lines().map(line));
                }
            }
        }
        if !texts.is_empty() {
            let program = self.program();
            self.lines = program.lines().map(str::to_owned).chain(texts).collect();
        }
        Ok(())
    }

    /// Whether a command prints what stands in the file.
    fn prints(
        &self,
        asked: &Asked,
        print: fn(&str, &str) -> Result<String, String>,
    ) -> Result<(), String> {
        let found = print(&self.program(), asked.argument())?;
        let found: Vec<&str> = found.lines().map(str::trim_end).collect();
        let sections = self.sections();
        let expected = sections.iter().find(|(words, _)| *words == asked.words);
        let expected = expected.map_or(&[][..], |(_, text)| text);
        match expected == found {
            true => Ok(()),
            false => {
                Err(format!("`-` is expected, `+` found\n{}", difference::lines(expected, &found)))
            }
        }
    }

    /// The texts it expects, each with the words of its command.
    fn sections(&self) -> Vec<(&str, Vec<&str>)> {
        let mut sections: Vec<(&str, Vec<&str>)> = Vec::new();
        for line in &self.lines {
            if let Some(words) = line.strip_prefix(SECTION) {
                sections.push((words.trim(), Vec::new()));
            } else if let Some(text) = line.strip_prefix(TEXT) {
                let text = text.strip_prefix(' ').unwrap_or(text);
                match sections.last_mut() {
                    Some((_, lines)) => lines.push(text),
                    None => sections.push(("", vec![text])),
                }
            }
        }
        sections
    }
}

fn is_expected(line: &str) -> bool {
    line.starts_with(SECTION) || line.starts_with(TEXT)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Prints the tape's last line, or its first.
    const PRINT: Command = Command {
        name: "line",
        action: Action::Text(|program, which| match which {
            "first" => Ok(program.lines().next().unwrap_or_default().to_owned()),
            "" => Ok(program.lines().last().unwrap_or_default().to_owned()),
            other => Err(format!("no line is {other}")),
        }),
    };

    #[test]
    fn what_is_blessed_holds_and_a_change_is_shown() {
        let text = "; test line first\n; test line\ngt tape 1\n\n";
        let mut file = File::parse(text, &[PRINT]).unwrap();
        assert_eq!(file.check().unwrap_err().matches("\n+ ").count(), 2);
        file.bless().unwrap();
        file.check().unwrap();
        let blessed = file.text();
        assert!(blessed.ends_with("\n\n;> line\n;| gt tape 1\n"), "{blessed}");
        let changed = File::parse(&blessed.replace(";| gt tape 1", ";| gt tape 2"), &[PRINT]);
        let failure = changed.unwrap().check().unwrap_err();
        assert!(failure.contains("- gt tape 2\n+ gt tape 1\n"), "{failure}");
        let unasked = File::parse(&blessed.replace("; test line\n", ""), &[PRINT]).unwrap();
        assert!(unasked.check().unwrap_err().contains("the text of `line`"));
    }

    #[test]
    fn commands_are_known() {
        let fault = |text| File::parse(text, &[PRINT]).unwrap_err();
        assert!(fault("gt tape 1\n").contains("; test "));
        assert_eq!(fault("; test shard\n"), "unknown command `test shard`; this folder knows line");
        let file = File::parse("; test line third\n", &[PRINT]).unwrap();
        assert_eq!(file.check().unwrap_err(), "test line third: no line is third");
    }
}
