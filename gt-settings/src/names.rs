//! Variables that GT does not have: those of earlier systems, and misspelled ones.

use crate::table::OF_CHORES;
use crate::{SETTINGS, SUCCESSORS, Setting};

/// A variable that has no effect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Odd {
    /// Its name.
    pub name: String,
    /// What is wrong with it.
    pub what: String,
    /// What to do.
    pub cure: String,
}

/// The variables among these that begin with `GT_` and have no effect, by name.
pub fn misspelled(names: impl Iterator<Item = String>) -> Vec<Odd> {
    let mut odd: Vec<Odd> = names.filter_map(odd_one).collect();
    odd.sort_by(|a, b| a.name.cmp(&b.name));
    odd
}

/// As [`misspelled`], of the environment.
#[must_use]
pub fn odd_variables() -> Vec<Odd> {
    misspelled(std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned()))
}

fn odd_one(name: String) -> Option<Odd> {
    let is_chore = OF_CHORES.iter().any(|start| name.starts_with(start));
    if !name.starts_with("GT_") || is_chore || Setting::of_variable(&name).is_some() {
        return None;
    }
    if let Some((_, successor)) = SUCCESSORS.iter().find(|(old, _)| *old == name) {
        let what = format!("{name} has no effect any more");
        return Some(Odd { name, what, cure: (*successor).to_owned() });
    }
    let what = format!("GT has no variable {name}");
    let cure = match nearest(&name, SETTINGS.iter().map(|setting| setting.variable)) {
        Some(meant) => format!("did you mean {meant}?"),
        None => format!("unset {name}"),
    };
    Some(Odd { name, what, cure })
}

/// The name that was meant, if one is near.
pub fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let distance = |other: &&str| strsim::osa_distance(name, other);
    let most = (name.len() / 4).max(2);
    names.filter(|name| !name.is_empty()).min_by_key(distance).filter(|best| distance(best) <= most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_variables_are_found_with_what_was_meant() {
        let names =
            ["GT_CONECT", "GT_CONNECT", "GT_SIM_SEED", "HOME", "GT_AUTO_COMPILE", "GT_XYZZY"];
        let odd = misspelled(names.map(String::from).into_iter());
        let said: Vec<String> =
            odd.iter().map(|odd| format!("{}: {}", odd.what, odd.cure)).collect();
        assert_eq!(said[0].split(':').next(), Some("GT_AUTO_COMPILE has no effect any more"));
        assert_eq!(said[1], "GT has no variable GT_CONECT: did you mean GT_CONNECT?");
        assert_eq!(said[2], "GT has no variable GT_XYZZY: unset GT_XYZZY");
        assert_eq!(said.len(), 3);
    }

    #[test]
    fn the_nearest_name_is_near() {
        let near = |name| nearest(name, SETTINGS.iter().map(|setting| setting.variable));
        assert_eq!(near("GT_THREAD"), Some("GT_THREADS"));
        assert_eq!(near("GT_NUMERIC"), Some("GT_NUMERICS"));
        assert_eq!(near("GT_INSTRUCTON_LOG"), Some("GT_INSTRUCTION_LOG"));
        assert_eq!(near("GT_SOMETHING_ELSE"), None);
    }
}
