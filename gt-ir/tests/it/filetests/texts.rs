//! The commands about text: `cat`, `shape`, `verify`, `explain`.

use gt_ir::{
    Entry,
    diagnostic::{Color, Diagnostic, render},
    testing::filetest::File,
    text,
};

/// What announces a mistake at the end of a line.
const MARK: &str = ";~ ";

fn drawn(errors: &[Diagnostic], text: &str) -> String {
    render(errors, "test.gt", text, Color::Never)
}

/// Each entry's line (counted from 0) and how it prints.
fn printed(file: &File) -> Result<Vec<(usize, String)>, String> {
    let text = file.text();
    let (tape, map) = text::parse(&text).map_err(|errors| drawn(&errors, &text))?;
    let printed = text::print(&tape);
    let entries = printed.lines().skip(1).enumerate().map(|(at, entry)| {
        let start = map.entry(at).map_or(0, |spans| spans.whole.start);
        (line_of(&text, start), entry.to_owned())
    });
    Ok(entries.collect())
}

fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at].iter().filter(|b| **b == b'\n').count()
}

/// The line without its comment.
fn code(line: &str) -> &str {
    line.split(" ;").next().unwrap_or(line).trim_end()
}

pub(super) fn cat(file: &File) -> Result<(), String> {
    for (line, entry) in printed(file)? {
        if code(&file.lines[line]) != entry {
            return Err(format!(
                "line {}\n  is     {}\n  prints {entry}",
                line + 1,
                code(&file.lines[line])
            ));
        }
    }
    Ok(())
}

pub(super) fn bless_cat(file: &mut File) -> Result<(), String> {
    for (line, entry) in printed(file)? {
        let comment = file.lines[line].split_once(" ;").map(|(_, comment)| format!(" ;{comment}"));
        file.lines[line] = entry + &comment.unwrap_or_default();
    }
    Ok(())
}

pub(super) fn shape(file: &File) -> Result<(), String> {
    let text = file.text();
    let loaded = text::load(&text).map_err(|errors| drawn(&errors, &text))?;
    for (at, entry) in loaded.tape.entries.iter().enumerate() {
        let written = loaded.map.entry(at).and_then(|spans| spans.declared);
        let Entry::Instr(instr) = entry else { continue };
        if written != loaded.verified.ty(instr.out) {
            return Err(format!(
                "{} has type {:?}, written {written:?}",
                instr.out,
                loaded.verified.ty(instr.out)
            ));
        }
    }
    Ok(())
}

/// The mistakes of the file: line and message.
fn found(file: &File) -> Vec<(usize, String)> {
    let text = file.text();
    let errors = text::load(&text).err().unwrap_or_default();
    let mut found: Vec<(usize, String)> = errors
        .into_iter()
        .map(|error| (line_of(&text, error.span.map_or(0, |s| s.start)), error.message))
        .collect();
    found.sort_by_key(|(line, _)| *line);
    found
}

fn announced(file: &File) -> Vec<(usize, String)> {
    let lines = file.lines.iter().enumerate();
    lines
        .flat_map(|(at, line)| {
            line.split(MARK).skip(1).map(move |message| (at, message.trim().to_owned()))
        })
        .collect()
}

pub(super) fn verify(file: &File) -> Result<(), String> {
    let (expected, found) = (announced(file), found(file));
    let list = |all: &[(usize, String)]| {
        all.iter().map(|(at, m)| format!("\n    {}: {m}", at + 1)).collect::<String>()
    };
    if expected == found {
        Ok(())
    } else {
        Err(format!("\n  expected{}\n  found{}", list(&expected), list(&found)))
    }
}

pub(super) fn bless_verify(file: &mut File) -> Result<(), String> {
    for line in &mut file.lines {
        let kept = line.split(MARK).next().unwrap_or_default().trim_end().len();
        line.truncate(kept);
    }
    for (line, message) in found(file) {
        if let Some(line) = file.lines.get_mut(line) {
            line.push_str(&format!(" {MARK}{message}"));
        }
    }
    Ok(())
}

pub(super) fn explain(program: &str, _: &str) -> Result<String, String> {
    Ok(drawn(&text::load(program).err().unwrap_or_default(), program))
}
