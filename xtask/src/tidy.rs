//! The house rules that no compiler checks, as a table: a rule is a function from the files of the
//! tree to its complaints.
//!
//! All complaints are printed. Rules look at tracked files and at untracked files that are not
//! ignored. Rules that clippy or rustfmt can check are left to them.

mod modules;

use crate::{agents, ops_page, pictures::bars, readme, reference, shell::Step};
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::path::Path;

/// A rule returns its violations, one line each.
type Rule = fn(&Tree) -> Result<Vec<String>>;

const RULES: &[(&str, Rule)] = &[
    ("every source file begins with a `//!` header", headers),
    ("no file is too long", sizes),
    ("no line is too long", columns),
    ("no marks of unfinished work", leftovers),
    ("no test is ignored or expects a panic", ignored_tests),
    ("file names describe their contents", names),
    ("unsafe code is in the listed files only", unsafe_code),
    ("only the socket shells use ZeroMQ, and cores do no input or output", purity),
    ("crates depend in one direction", edges),
    ("modules depend in one direction", modules::circles),
    ("a primitive costs what CONTRIBUTING says", primitive),
    ("links in documents have a target", links),
    ("the code of every chapter of the guide is tested", chapters),
    ("generated pages are up to date", generated),
];

/// Files that may hold unsafe code: memory, threads and compiled kernels of the engine, files
/// mapped into memory, and the one symbol by which the language finds the embedded system (declared
/// in one place, defined where a program or a test of the language needs it).
const UNSAFE_FILES: &[&str] = &[
    "gt-compiler/src/buffer.rs",
    "gt-compiler/src/cuda/driver.rs",
    "gt-compiler/src/cuda/ffi.rs",
    "gt-compiler/src/cuda/gate.rs",
    "gt-compiler/src/cuda/load.rs",
    "gt-compiler/src/buffer/guard.rs",
    "gt-compiler/src/simulated/function.rs",
    "gt-compiler/src/cuda/nvrtc/ffi.rs",
    "gt-compiler/src/cuda/source/tests/host.rs",
    "gt-compiler/src/kernel/jit.rs",
    "gt-compiler/src/kernel/tests.rs",
    "gt-compiler/src/native/context.rs",
    "gt-compiler/src/native/indexing/add.rs",
    "gt-compiler/src/native/integers.rs",
    "gt-compiler/src/native/matmul.rs",
    "gt-compiler/src/native/multiply.rs",
    "gt-compiler/src/native/multiply/direct.rs",
    "gt-compiler/src/native/multiply/pairs.rs",
    "gt-compiler/src/native/multiply/pairs/lines.rs",
    "gt-compiler/src/native/multiply/pairs/tests.rs",
    "gt-compiler/src/native/routines.rs",
    "gt-compiler/src/native/slices.rs",
    "gt-compiler/src/native/sort.rs",
    "gt-compiler/src/native/run.rs",
    "gt-compiler/src/native/run/rounds.rs",
    "gt-compiler/src/simulated/single.rs",
    "gt-compiler/src/native/stream.rs",
    "gt-compiler/src/threads.rs",
    "gt-compiler/src/libtorch/attention.rs",
    "gt-compiler/src/libtorch/lane.rs",
    "gt-compiler/src/libtorch/products.rs",
    "gt-lang/examples/record_cost.rs",
    "gt-lang/src/io/mmap.rs",
    "gt-lang/src/reference.rs",
    "gt-lang/src/session.rs",
    "gt-lang/tests/it/main.rs",
    "gt-runtime/src/embedded/process.rs",
    "gt-runtime/src/zmq/ring.rs",
];

/// Tables may be long, because readers look up single rows.
const TABLES: &[&str] = &["gt-ir/src/op.rs"];

/// Files and folders whose rows are read by their columns, so lines may be long.
const WIDE_TABLES: &[&str] = &[
    "gt-cli/src/metrics/names.rs",
    "gt-cli/src/bench/works.rs",
    "gt-compiler/src/egraph/rules/",
    "gt-ir/src/op.rs",
    "gt-lang/tests/it/relations.rs",
    "gt-settings/src/table.rs",
    "xtask/opinfo/src/table/",
    "xtask/src/libtorch/wheels.rs",
];

const MAX_LINES: usize = 1_000;
const MAX_COLUMNS: usize = 100;

/// The workspace crates that each crate may depend on, outside its tests.
const EDGES: &[(&str, &[&str])] = &[
    ("gt-build", &[]),
    ("gt-settings", &[]),
    ("gt-ir", &[]),
    ("gt-macros", &[]),
    ("gt-lang", &["gt-ir", "gt-macros", "gt-settings"]),
    ("gt-compiler", &["gt-ir", "gt-settings", "gt-build"]),
    ("gt-runtime", &["gt-ir", "gt-compiler", "gt-settings", "gt-build"]),
    ("gt-cli", &["gt-ir", "gt-lang", "gt-compiler", "gt-runtime", "gt-settings", "gt-build"]),
    ("gt-tensor", &["gt-ir", "gt-lang", "gt-compiler", "gt-runtime", "gt-build"]),
    ("xtask", &["gt-features", "gt-ir", "gt-settings"]),
    ("gt-features", &[]),
    ("gt-opinfo", &["gt-tensor", "gt-runtime", "gt-build"]),
];

/// Large crates that the language must not depend on, so that a user's build does not link them.
const FOREIGN_TO_THE_LANGUAGE: &[&str] = &["cranelift-", "zmq", "egg", "tokio", "tch", "gemm"];

/// The text files of the repository, by their paths from the root.
struct Tree {
    files: BTreeMap<String, String>,
}

/// Checks all rules and prints all complaints.
pub(crate) fn tidy(root: &Path) -> Result<()> {
    let tree = Tree::read(root)?;
    let mut n_complaints = 0;
    for (name, rule) in RULES {
        let complaints = rule(&tree).with_context(|| format!("while checking that {name}"))?;
        n_complaints += complaints.len();
        println!("{} {name}", if complaints.is_empty() { "ok  " } else { "FAIL" });
        complaints.iter().for_each(|complaint| println!("       {complaint}"));
    }
    if n_complaints > 0 {
        bail!("{n_complaints} house rule violation(s), listed above");
    }
    Ok(())
}

/// The text files of the repository, by their paths from the root.
pub(crate) fn sources(root: &Path) -> Result<BTreeMap<String, String>> {
    Ok(Tree::read(root)?.files)
}

impl Tree {
    fn read(root: &Path) -> Result<Tree> {
        let listing =
            Step::new("git", &["ls-files", "--cached", "--others", "--exclude-standard"]).read()?;
        let texts = listing
            .lines()
            .filter_map(|path| Some((path.to_string(), std::fs::read(root.join(path)).ok()?)));
        let files = texts
            .filter_map(|(path, bytes)| Some((path, String::from_utf8(bytes).ok()?)))
            .collect();
        Ok(Tree { files })
    }

    fn ending(&self, suffix: &str) -> impl Iterator<Item = (&str, &str)> {
        self.files
            .iter()
            .filter(move |(path, _)| path.ends_with(suffix))
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }

    fn rust(&self) -> impl Iterator<Item = (&str, &str)> {
        self.ending(".rs").filter(|(path, _)| !path.contains("/ui/"))
    }
}

/// Complaints about single lines, as `path:line: complaint`.
fn by_line<'a>(
    files: impl Iterator<Item = (&'a str, &'a str)>,
    complaint: impl Fn(&str, &str) -> Option<String>,
) -> Result<Vec<String>> {
    let mut complaints = Vec::new();
    for (path, text) in files {
        let found =
            text.lines().enumerate().filter_map(|(i, line)| Some((i, complaint(path, line)?)));
        complaints.extend(found.map(|(i, what)| format!("{path}:{}: {what}", i + 1)));
    }
    Ok(complaints)
}

/// The part of a line that is code.
fn code(line: &str) -> &str {
    line.split("//").next().unwrap_or(line)
}

fn headers(tree: &Tree) -> Result<Vec<String>> {
    let bare =
        tree.rust().filter(|(_, text)| !text.starts_with("//! ") && !text.starts_with("#![doc"));
    Ok(bare.map(|(path, _)| format!("{path}: no `//!` header on its first line")).collect())
}

fn sizes(tree: &Tree) -> Result<Vec<String>> {
    let long = tree.rust().filter(|(path, _)| !TABLES.contains(path)).filter_map(|(path, text)| {
        let n_lines =
            text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text).lines().count();
        (n_lines > MAX_LINES)
            .then(|| format!("{path}: {n_lines} lines before its tests, more than {MAX_LINES}"))
    });
    Ok(long.collect())
}

fn columns(tree: &Tree) -> Result<Vec<String>> {
    let texts = tree.rust().filter(|(path, _)| !WIDE_TABLES.iter().any(|t| path.starts_with(t)));
    by_line(texts, |_, line| {
        let n_columns = line.chars().count();
        (n_columns > MAX_COLUMNS).then(|| format!("{n_columns} columns, more than {MAX_COLUMNS}"))
    })
}

fn leftovers(tree: &Tree) -> Result<Vec<String>> {
    // The marks are written in halves, because this file is searched as well.
    let marks = [["TO", "DO"], ["FIX", "ME"], ["X", "XX"], ["unimplemented", "!("]]
        .map(|halves| halves.concat());
    let files = tree.files.iter().map(|(path, text)| (path.as_str(), text.as_str()));
    by_line(
        files.filter(|(path, _)| !path.ends_with(".lock") && !path.starts_with("snapshots/")),
        |_, line| {
            marks.iter().find(|mark| line.contains(mark.as_str())).map(|mark| format!("`{mark}`"))
        },
    )
}

fn ignored_tests(tree: &Tree) -> Result<Vec<String>> {
    let marks = ["#[ign", "#[should_pa"];
    by_line(tree.rust(), |_, line| {
        let hit =
            marks.iter().any(|mark| line.trim_start().starts_with(mark) && !line.contains("\"#["));
        hit.then(|| "a test that is ignored or expects a panic".into())
    })
}

fn names(tree: &Tree) -> Result<Vec<String>> {
    const SAY_NOTHING: [&str; 4] = ["utils.rs", "util.rs", "helpers.rs", "common.rs"];
    let vague = tree
        .rust()
        .filter(|(path, _)| SAY_NOTHING.iter().any(|name| path.rsplit('/').next() == Some(name)));
    Ok(vague.map(|(path, _)| format!("{path}: the name does not describe the contents")).collect())
}

fn unsafe_code(tree: &Tree) -> Result<Vec<String>> {
    const USES: [&str; 5] = ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern", "#[unsafe("];
    let fenced = |path: &str| {
        UNSAFE_FILES.iter().any(|allowed| path.starts_with(allowed)) || path.starts_with("xtask/")
    };
    by_line(tree.rust().filter(|(path, _)| !fenced(path)), |_, line| {
        USES.iter()
            .find(|word| code(line).contains(*word))
            .map(|word| format!("`{word}` outside the listed files"))
    })
}

fn purity(tree: &Tree) -> Result<Vec<String>> {
    const WORLD: [&str; 6] =
        ["std::net", "std::fs", "std::thread", "std::time::Instant", "SystemTime", "zmq::"];
    let sources =
        tree.rust().filter(|(path, _)| path.contains("/src/") && !path.starts_with("xtask/"));
    by_line(sources, |path, line| {
        let line = code(line);
        if path.ends_with("/core.rs") {
            let word = WORLD.iter().find(|word| line.contains(*word));
            return word.map(|word| format!("`{word}` in a pure core"));
        }
        // A context is only a handle, which callers of the shell hold.
        let touches =
            line.contains("zmq::") && !line.contains("::zmq::") && line != "use zmq::Context;";
        (!path.contains("/zmq") && touches).then(|| "ZeroMQ outside its shell".into())
    })
}

fn edges(_: &Tree) -> Result<Vec<String>> {
    let text = crate::shell::cargo(&["metadata", "--format-version", "1", "--no-deps"]).read()?;
    let metadata: serde_json::Value = serde_json::from_str(&text)?;
    let packages = metadata["packages"].as_array().context("`cargo metadata` lists no packages")?;
    let ours: Vec<&str> = packages.iter().filter_map(|package| package["name"].as_str()).collect();
    let mut complaints = Vec::new();
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        let Some((_, allowed)) = EDGES.iter().find(|(crate_name, _)| *crate_name == name) else {
            complaints.push(format!(
                "{name}: the crate has no row in the table of dependencies in xtask"
            ));
            continue;
        };
        let all = package["dependencies"].as_array().into_iter().flatten();
        for dependency in all.filter(|d| d["kind"].is_null()).filter_map(|d| d["name"].as_str()) {
            let foreign = name == "gt-lang"
                && FOREIGN_TO_THE_LANGUAGE.iter().any(|f| dependency.starts_with(f));
            if foreign || (ours.contains(&dependency) && !allowed.contains(&dependency)) {
                complaints.push(format!("{name} must not depend on {dependency}"));
            }
        }
    }
    Ok(complaints)
}

/// Checks that one pointwise primitive is named in the files of the recipe only, outside of tests.
fn primitive(tree: &Tree) -> Result<Vec<String>> {
    const RECIPE: &str = "CONTRIBUTING.md";
    const EXAMPLE: &str = "erf";
    let text = tree.files.get(RECIPE).map_or("", String::as_str);
    let recipe = text.split("**A pointwise primitive**").nth(1).unwrap_or("");
    let recipe = recipe.split("**Any other primitive**").next();
    let listed: Vec<&str> =
        recipe.unwrap_or("").split('`').filter(|p| p.ends_with(".rs")).collect();
    let names = |text: &str| {
        let mut words = text.split(|c: char| !c.is_ascii_alphanumeric());
        words.any(|word| word.eq_ignore_ascii_case(EXAMPLE))
    };
    let apart = |path: &str| path.starts_with("xtask/") || !path.contains("/src/");
    let sources = tree.rust().filter(|(path, _)| !apart(path) && !path.contains("/tests"));
    let files: Vec<&str> = sources.filter(|(_, text)| names(text)).map(|(path, _)| path).collect();
    let more = files.iter().filter(|path| !listed.contains(path));
    let fewer = listed.iter().filter(|path| !files.contains(path));
    Ok(more
        .map(|path| {
            format!("{path}: names `{EXAMPLE}`, and the recipe in {RECIPE} does not list it")
        })
        .chain(fewer.map(|path| format!("{RECIPE}: `{path}` does not name `{EXAMPLE}`")))
        .collect())
}

fn links(tree: &Tree) -> Result<Vec<String>> {
    let mut complaints = Vec::new();
    for (path, text) in tree.ending(".md") {
        let folder = Path::new(path).parent().unwrap_or(Path::new(""));
        let targets =
            text.split("](").skip(1).filter_map(|rest| rest.split([')', '#', ' ']).next());
        for target in targets.filter(|t| !t.is_empty() && !t.contains(':') && !t.starts_with('<')) {
            if !crate::shell::root().join(folder).join(target).exists() {
                complaints.push(format!("{path}: no file at `{target}`"));
            }
        }
    }
    Ok(complaints)
}

/// Checks that every chapter is listed in the file that makes chapters documentation tests.
fn chapters(tree: &Tree) -> Result<Vec<String>> {
    const TESTED: &str = "src/guide.rs";
    let listed = tree.files.get(TESTED).map_or("", String::as_str);
    let chapters = tree.ending(".md").filter_map(|(path, _)| path.strip_prefix("docs/guide/src/"));
    Ok(chapters
        .filter(|chapter| *chapter != "SUMMARY.md" && !listed.contains(&format!("\"{chapter}\"")))
        .map(|chapter| format!("docs/guide/src/{chapter}: not listed in {TESTED}"))
        .collect())
}

fn generated(tree: &Tree) -> Result<Vec<String>> {
    let page = |path: &str| {
        tree.files.get(path).map(String::as_str).with_context(|| format!("{path} is missing"))
    };
    let (ops, readme) = (page(reference::PAGE)?, page(readme::README)?);
    let each = ops_page::page(|path| tree.files.get(path).cloned())?;
    let figures = page(readme::PAGE)?;
    let pages = [
        (reference::PAGE, ops, reference::renewed(ops)?),
        (ops_page::PAGE, page(ops_page::PAGE)?, each),
        (readme::README, readme, readme::with_settings(&readme::renewed(readme, figures)?)?),
        (bars::PICTURE, page(bars::PICTURE)?, bars::draw(&readme::rows(figures))?),
        (agents::PAGE, page(agents::PAGE)?, agents::renewed(page(agents::PAGE)?, &tree.files)?),
    ];
    let stale = pages.iter().filter(|(_, now, fresh)| now != fresh);
    Ok(stale.map(|(path, ..)| format!("{path}: stale; run `cargo xtask docs`")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> Tree {
        Tree {
            files: files.iter().map(|(path, text)| (path.to_string(), text.to_string())).collect(),
        }
    }

    #[test]
    fn each_rule_finds_what_it_is_for() {
        let long = format!("//! a\n{}", "x\n".repeat(MAX_LINES));
        let broad = format!("//! {}\n", "é".repeat(MAX_COLUMNS));
        let mark = format!("//! a\n// {}: later\n", ["TO", "DO"].concat());
        let cases: &[(Rule, &str, &str)] = &[
            (headers, "a/src/lib.rs", "fn main() {}\n"),
            (sizes, "a/src/lib.rs", &long),
            (columns, "a/src/lib.rs", &broad),
            (leftovers, "a/src/lib.rs", &mark),
            (ignored_tests, "a/src/lib.rs", "//! a\n    #[ignore]\n"),
            (names, "a/src/utils.rs", "//! a\n"),
            (unsafe_code, "gt-ir/src/lib.rs", "//! a\nlet x = unsafe { y };\n"),
            (purity, "gt-runtime/src/dispatcher/core.rs", "//! a\nuse std::net::TcpStream;\n"),
            (purity, "gt-runtime/src/client.rs", "//! a\nlet c = zmq::Context::new();\n"),
            (primitive, "gt-ir/src/new.rs", "//! a\nfn f(x: f64) -> f64 { libm::erf(x) }\n"),
            (links, "a.md", "see [b](no/such/file.md)"),
            (chapters, "docs/guide/src/new.md", "# New"),
        ];
        for (i, (rule, path, text)) in cases.iter().enumerate() {
            assert_eq!(rule(&tree(&[(path, text)])).unwrap().len(), 1, "case {i}: {path}");
        }
    }

    #[test]
    fn no_rule_complains_about_a_plain_file() {
        let plain = tree(&[(
            "gt-ir/src/lib.rs",
            "//! What it is.\n\n/// One.\npub const ONE: u32 = 1; // no unsafe { here }\n",
        )]);
        for rule in [
            headers,
            sizes,
            columns,
            leftovers,
            ignored_tests,
            names,
            unsafe_code,
            purity,
            primitive,
            links,
        ] {
            assert_eq!(rule(&plain).unwrap(), Vec::<String>::new());
        }
    }
}
