//! Mistakes and what the compiler says about them: `tests/ui/NAME.rs` does not compile,
//! `tests/ui/NAME.stderr` is the error.
//!
//! All cases are checked by one `cargo check` of a generated package, whose only dependency is a
//! crate `gt` that re-exports the language, as the root crate does. `GT_BLESS=1` writes the
//! expectations anew. They are in the words of one version of rustc; on others the first line has
//! to agree, which is the language's own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// The compiler whose words the expectations are in.
const RUSTC: &str = "rustc 1.95.";

/// Most lines of an error that carry text.
const MAX_LINES: usize = 8;

#[test]
fn mistakes_have_short_errors() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ui");
    let cases = cases(&source);
    assert!(cases.len() >= 25, "{} cases in {}", cases.len(), source.display());
    let errors = check(&generate(&source, &cases));
    let bless = env::var_os("GT_BLESS").is_some();
    let exact = rustc_version().starts_with(RUSTC);
    let compared = |error: &str| {
        if exact { error.to_string() } else { error.lines().next().unwrap_or("").to_string() }
    };
    let mut faults = Vec::new();
    for case in &cases {
        let got = errors.get(case).cloned().unwrap_or_default();
        let expected = source.join(format!("{case}.stderr"));
        if bless {
            fs::write(&expected, &got).expect("the source tree is writable when blessing");
        }
        let want = fs::read_to_string(&expected).unwrap_or_default();
        if got.is_empty() {
            faults.push(format!("{case}: compiles"));
        } else if compared(&want) != compared(&got) {
            faults.push(format!("{case}: expected\n{want}\ngot\n{got}"));
        }
        let longest = got.split("\n\n").map(text_lines).max().unwrap_or(0);
        if exact && longest > MAX_LINES {
            faults.push(format!("{case}: {longest} lines are more than {MAX_LINES}\n{got}"));
        }
    }
    assert!(faults.is_empty(), "{}\n(GT_BLESS=1 accepts the new errors)", faults.join("\n\n"));
}

fn rustc_version() -> String {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc)
        .arg("--version")
        .output()
        .expect("rustc compiled this test, so it can be run");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn cases(source: &Path) -> Vec<String> {
    let entries = fs::read_dir(source).expect("the cases are a folder of the crate");
    let paths = entries.map(|e| e.expect("a listed file can be looked at").path());
    let mut names: Vec<String> = paths
        .filter(|p| p.extension().is_some_and(|e| e == "rs"))
        .filter_map(|p| Some(p.file_stem()?.to_str()?.to_string()))
        .collect();
    names.sort();
    names
}

/// A package with one example a case, beside a crate `gt`.
fn generate(source: &Path, cases: &[String]) -> PathBuf {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ui");
    let language = Path::new(env!("CARGO_MANIFEST_DIR"));
    let manifest = |name: &str, dependency: String| {
        format!(
            "[package]\nname = \"{name}\"\nversion = \"0.0.0\"\nedition = \
             \"2024\"\n\n[dependencies]\n{dependency}\n"
        )
    };
    let language_dependency =
        format!("gt-lang = {{ path = {:?} }}", language.display().to_string());
    // Cases that are gone must not be checked.
    let _ = fs::remove_dir_all(root.join("examples"));
    write(&root.join("gt/Cargo.toml"), &manifest("gt", language_dependency));
    write(&root.join("gt/src/lib.rs"), "pub use gt_lang::*;\n");
    write(
        &root.join("Cargo.toml"),
        &manifest("ui", "gt = { path = \"gt\" }\n\n[workspace]".into()),
    );
    write(&root.join("src/lib.rs"), "");
    for case in cases {
        let text = fs::read_to_string(source.join(format!("{case}.rs")))
            .expect("a listed case can be read");
        write(&root.join("examples").join(format!("{case}.rs")), &text);
    }
    // The workspace's own versions: nothing is looked up or downloaded.
    let lock = fs::read(language.join("../Cargo.lock")).expect("the workspace has a lock file");
    fs::write(root.join("Cargo.lock"), lock).expect("the target folder is writable");
    root
}

fn write(path: &Path, text: &str) {
    let folder = path.parent().expect("paths given here have a folder");
    fs::create_dir_all(folder).expect("the target folder is writable");
    fs::write(path, text).expect("the target folder is writable");
}

/// The errors of each example, as rustc prints them.
fn check(root: &Path) -> BTreeMap<String, String> {
    let output = Command::new(env!("CARGO"))
        .args([
            "check",
            "--offline",
            "--examples",
            "--keep-going",
            "--quiet",
            "--message-format=json",
        ])
        .current_dir(root)
        .env("CARGO_TARGET_DIR", root.join("target"))
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        // Without it, rustc prints some errors once that it prints twice otherwise.
        .env_remove("CARGO_INCREMENTAL")
        .env("CARGO_TERM_COLOR", "never")
        .output()
        .expect("cargo runs this test, so it can be run");
    let text = String::from_utf8_lossy(&output.stdout);
    let mut errors = BTreeMap::<String, String>::new();
    let mut checked = false;
    for message in
        text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
    {
        let (target, diagnostic) = (&message["target"], &message["message"]);
        checked |= target["name"] == "gt_lang" || target["kind"][0] == "example";
        let is_error = diagnostic["level"] == "error" && target["kind"][0] == "example";
        let (Some(name), Some(rendered)) =
            (target["name"].as_str(), diagnostic["rendered"].as_str())
        else {
            continue;
        };
        // "aborting due to ..." has no place in the source.
        if is_error && diagnostic["spans"].as_array().is_some_and(|spans| !spans.is_empty()) {
            errors.entry(name.to_string()).or_default().push_str(&portable(rendered));
        }
    }
    assert!(checked, "cargo check did not run:\n{}", String::from_utf8_lossy(&output.stderr));
    errors
}

/// An error without what differs from one checkout to the next, or with every line added to the
/// language: rustc's quotations of the language's source are cut, and the margin is made two digits
/// wide.
fn portable(rendered: &str) -> String {
    let sections =
        rendered.split_inclusive('\n').fold(Vec::<String>::new(), |mut sections, line| {
            match sections.last_mut() {
                Some(section) if !line.starts_with("note: ") && !line.starts_with("help: ") => {
                    section.push_str(line)
                }
                _ => sections.push(line.to_string()),
            }
            sections
        });
    let margin =
        rendered.find("--> ").map_or(2, |at| at - rendered[..at].rfind('\n').map_or(0, |n| n + 1));
    let mut out = String::new();
    for section in sections {
        let quotes_the_language = section.lines().any(|l| l.trim_start().starts_with("--> /"));
        let n_kept = if quotes_the_language { 1 } else { usize::MAX };
        for line in section.lines().take(n_kept) {
            out.push_str(with_margin(line, margin).trim_end());
            out.push('\n');
        }
    }
    out.truncate(out.trim_end().len());
    out.push_str("\n\n");
    out
}

/// A line of a diagnostic whose line numbers are `margin` wide, with room for two digits.
fn with_margin(line: &str, margin: usize) -> String {
    let in_margin = line.starts_with([' ', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9']);
    match margin.checked_sub(2) {
        _ if !in_margin => line.to_string(),
        None => format!(" {line}"),
        Some(excess) => line.strip_prefix(&" ".repeat(excess)).unwrap_or(line).to_string(),
    }
}

/// Lines with something to read: not bare gutters, and not rustc's pointers at the definition of
/// what was called, which come last.
fn text_lines(error: &str) -> usize {
    let error = error.split("\nnote: ").next().unwrap_or(error);
    error
        .lines()
        .map(str::trim)
        .filter(|line| !line.trim_matches(|c| "|^ -.".contains(c)).is_empty())
        .count()
}
