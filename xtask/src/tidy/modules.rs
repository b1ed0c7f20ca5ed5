//! Dependency circles among modules: the children of one module must not depend on each other in a
//! circle.
//!
//! The graph comes from the sources. Each path outside tests (`crate::a::B`, `super::b::C`, a
//! child's name) is an edge from its module to the module that defines the name, also through
//! re-exports. Paths between a module and its own children are no edges. Globs and names made by
//! macros are not followed.

use anyhow::{Context, Result};
use petgraph::algo::tarjan_scc;
use petgraph::graph::DiGraph;
use proc_macro2::{TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, UseTree};

use super::Tree;

/// Allowed circles: the parent module, its members, and the reason.
const ALLOWED: &[(&str, &[&str], &str)] = &[(
    "gt-ir",
    &["body", "emit", "grad", "op", "rules"],
    "a row of the op table names its functions, and they emit other rows' ops",
)];

const CRATES: &[&str] =
    &["gt-ir", "gt-lang", "gt-lang/macros", "gt-compiler", "gt-runtime", "gt-cli", "xtask"];

/// A module by its names from the root of its crate.
type Module = Vec<String>;

/// The modules and paths of one crate.
#[derive(Default)]
struct Sources {
    modules: BTreeSet<Module>,
    /// The names that `use` declares in a module, with their paths.
    names: BTreeMap<(Module, String), Module>,
    /// Every path in the code, with the module that contains it.
    paths: Vec<(Module, Module)>,
}

/// Complaints about all circles that no entry of [`ALLOWED`] covers.
pub(super) fn circles(tree: &Tree) -> Result<Vec<String>> {
    let mut complaints = Vec::new();
    for name in CRATES {
        let sources = Sources::read(tree, name)?;
        for (parent, edges) in sources.edges() {
            let place = [&[name.to_string()], parent.as_slice()].concat().join("::");
            complaints.extend(circles_of(&place, &edges));
        }
    }
    Ok(complaints)
}

/// The edges between the children of one module, each with an example of its paths.
type Edges = BTreeMap<(String, String), String>;

fn circles_of(place: &str, edges: &Edges) -> Vec<String> {
    let mut complaints = Vec::new();
    for circle in circles_among(edges) {
        if !is_allowed(place, &circle) {
            complaints.push(format!("{place}: a circle of {}", circle.join(", ")));
            let inside = edges.iter().filter(|((from, to), _)| {
                circle.contains(&from.as_str()) && circle.contains(&to.as_str())
            });
            complaints.extend(inside.map(|((from, to), path)| format!("  {from} -> {to}: {path}")));
        }
    }
    complaints
}

/// The strongly connected components of more than one module, each in alphabetical order.
fn circles_among(edges: &Edges) -> Vec<Vec<&str>> {
    let modules: BTreeSet<&str> = edges.keys().flat_map(|(from, to)| [&**from, &**to]).collect();
    let mut graph = DiGraph::new();
    let nodes: BTreeMap<&str, _> =
        modules.into_iter().map(|module| (module, graph.add_node(module))).collect();
    for (from, to) in edges.keys() {
        graph.add_edge(nodes[from.as_str()], nodes[to.as_str()], ());
    }
    let sorted = tarjan_scc(&graph).into_iter().filter(|circle| circle.len() > 1).map(|circle| {
        let mut circle: Vec<&str> = circle.into_iter().map(|node| graph[node]).collect();
        circle.sort_unstable();
        circle
    });
    sorted.collect()
}

fn is_allowed(place: &str, circle: &[&str]) -> bool {
    ALLOWED.iter().any(|(parent, members, _)| {
        *parent == place && circle.iter().all(|module| members.contains(module))
    })
}

impl Sources {
    fn read(tree: &Tree, name: &str) -> Result<Sources> {
        let root = format!("{name}/src/");
        let mut files = Vec::new();
        let mut of_tests = BTreeSet::new();
        for (path, text) in tree.rust() {
            let Some(inner) = path.strip_prefix(&root) else { continue };
            let file = syn::parse_file(text).with_context(|| format!("{path} does not parse"))?;
            let module = module_of(inner);
            for item in &file.items {
                if let Item::Mod(child) = item
                    && is_test(&child.attrs)
                {
                    of_tests.insert(child_of(&module, &child.ident.to_string()));
                }
            }
            files.push((module, file));
        }
        let mut sources = Sources::default();
        files.retain(|(module, _)| !(0..=module.len()).any(|n| of_tests.contains(&module[..n])));
        sources.modules = files.iter().map(|(module, _)| module.clone()).collect();
        for (module, file) in &files {
            let mut walk = Walk { module: module.clone(), sources: &mut sources };
            walk.visit_file(file);
        }
        Ok(sources)
    }

    /// The edges between the children of each parent module.
    fn edges(&self) -> BTreeMap<Module, Edges> {
        let mut all: BTreeMap<Module, Edges> = BTreeMap::new();
        for (from, path) in &self.paths {
            let to = self.definition(path, 0);
            let shared = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
            if let (Some(a), Some(b)) = (from.get(shared), to.get(shared)) {
                let edges = all.entry(from[..shared].to_vec()).or_default();
                let example = format!("{} in {}", path.join("::"), from.join("::"));
                edges.entry((a.clone(), b.clone())).or_insert(example);
            }
        }
        all
    }

    /// The module that defines the item of a path, through re-exports.
    fn definition(&self, path: &[String], depth: usize) -> Module {
        const DEEP: usize = 8;
        let mut at = Module::new();
        for (i, name) in path.iter().enumerate() {
            let next = child_of(&at, name);
            if self.modules.contains(&next) {
                at = next;
                continue;
            }
            if let Some(target) = self.names.get(&(at.clone(), name.clone()))
                && depth < DEEP
            {
                let rest = [target.as_slice(), &path[i + 1..]].concat();
                return self.definition(&rest, depth + 1);
            }
            break;
        }
        at
    }
}

/// Visits a file and records its paths.
struct Walk<'a> {
    module: Module,
    sources: &'a mut Sources,
}

impl Walk<'_> {
    /// The path from the root of the crate, or `None` for a path into another crate.
    fn absolute(&self, path: &[String]) -> Option<Module> {
        let mut at = self.module.clone();
        match path.first()?.as_str() {
            "crate" => at.clear(),
            "self" => {}
            "super" => {
                at.pop()?;
            }
            child if self.sources.modules.contains(&child_of(&at, child)) => {
                at.push(child.to_string());
            }
            _ => return None,
        }
        let mut rest = &path[1..];
        while let Some("super") = rest.first().map(String::as_str) {
            at.pop()?;
            rest = &rest[1..];
        }
        at.extend_from_slice(rest);
        Some(at)
    }

    fn note(&mut self, path: &[String]) {
        if let Some(path) = self.absolute(path) {
            self.sources.paths.push((self.module.clone(), path));
        }
    }

    fn import(&mut self, before: &[String], tree: &UseTree) {
        let mut path = before.to_vec();
        match tree {
            UseTree::Path(node) => {
                path.push(node.ident.to_string());
                self.import(&path, &node.tree);
            }
            UseTree::Name(node) => self.bring(path, &node.ident.to_string(), None),
            UseTree::Rename(node) => {
                self.bring(path, &node.ident.to_string(), Some(node.rename.to_string()));
            }
            UseTree::Glob(_) => self.note(&path),
            UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.import(before, tree));
            }
        }
    }

    fn bring(&mut self, mut path: Vec<String>, name: &str, rename: Option<String>) {
        if name != "self" {
            path.push(name.to_string());
        }
        if let Some(target) = self.absolute(&path) {
            let known = rename.or_else(|| path.last().cloned()).unwrap_or_default();
            self.sources.names.insert((self.module.clone(), known), target);
        }
        self.note(&path);
    }

    /// Records the paths in the arguments of a macro: sequences of names joined by `::`.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut n_colons = 2;
        for token in tokens {
            match token {
                TokenTree::Ident(name) => {
                    if n_colons != 2 {
                        self.note(&std::mem::take(&mut path));
                    }
                    path.push(name.to_string());
                    n_colons = 0;
                }
                TokenTree::Punct(mark) if mark.as_char() == ':' => n_colons += 1,
                TokenTree::Group(group) => {
                    self.note(&std::mem::take(&mut path));
                    self.tokens(group.stream());
                    n_colons = 2;
                }
                _ => {
                    self.note(&std::mem::take(&mut path));
                    n_colons = 2;
                }
            }
        }
        self.note(&path);
    }
}

impl<'ast> Visit<'ast> for Walk<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes: &[Attribute] = match item {
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Mod(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            _ => &[],
        };
        if !is_test(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.module.push(item.ident.to_string());
        self.sources.modules.insert(self.module.clone());
        visit::visit_item_mod(self, item);
        self.module.pop();
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.import(&[], &item.tree);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
        if names.len() > 1 {
            self.note(&names);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.tokens(call.tokens.clone());
        visit::visit_macro(self, call);
    }
}

/// The module of a file, by its path below `src/`.
fn module_of(path: &str) -> Module {
    let path = path.strip_suffix(".rs").unwrap_or(path);
    let mut names: Module = path.split('/').map(str::to_string).collect();
    if matches!(names.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        names.pop();
    }
    names
}

fn child_of(module: &[String], name: &str) -> Module {
    [module, &[name.to_string()]].concat()
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::List(list) if list.path.is_ident("cfg") => {
            list.tokens.to_string().split(|c: char| !c.is_alphanumeric()).any(|word| word == "test")
        }
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circles_in(files: &[(&str, &str)]) -> Vec<String> {
        let files =
            files.iter().map(|(path, text)| (format!("gt-ir/src/{path}"), text.to_string()));
        circles(&Tree { files: files.collect() }).unwrap()
    }

    const ROOT: (&str, &str) = ("lib.rs", "mod a; mod b; mod c; pub use a::A;");

    #[test]
    fn a_circle_is_found_through_reexports_and_macros() {
        let found = circles_in(&[
            ROOT,
            ("a.rs", "use crate::b::B; pub struct A;"),
            ("b.rs", "pub struct B; fn f() { println!(\"{}\", crate::c::C) }"),
            ("c.rs", "pub const C: u8 = 0; fn f(a: crate::A) {}"),
        ]);
        assert_eq!(found[0], "gt-ir: a circle of a, b, c");
        assert_eq!(found[3], "  c -> a: A in c");
        assert_eq!(found.len(), 4, "{found:?}");
    }

    #[test]
    fn parents_tests_and_one_direction_are_no_circle() {
        let found = circles_in(&[
            ROOT,
            ("a/mod.rs", "mod inner; pub struct A; use inner::Inner;"),
            ("a/inner.rs", "use super::A; pub struct Inner(crate::b::B);"),
            ("b.rs", "pub struct B; #[cfg(test)] mod tests { use crate::a::A; }"),
            ("c.rs", "#[cfg(test)] mod scripts; use crate::b::B; use std::a::A;"),
            ("c/scripts.rs", "use crate::b::B;"),
        ]);
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn every_allowed_circle_is_there() {
        let tree = Tree::read(&crate::shell::root()).unwrap();
        for (parent, members, _) in ALLOWED {
            let (name, path) = parent.split_once("::").unwrap_or((parent, ""));
            let module: Module =
                path.split("::").filter(|n| !n.is_empty()).map(Into::into).collect();
            let sources = Sources::read(&tree, name).unwrap();
            let edges = &sources.edges()[&module];
            assert!(circles_among(edges).iter().any(|circle| circle == members), "{parent}");
        }
    }
}
