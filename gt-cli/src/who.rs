//! How sessions, workers and users are called beside their numbers.

/// The name that a session's program or a worker was given: `digits` of `s1 digits (pi, pid 7)`.
/// None if it has none.
pub(crate) fn given<'a>(name: &'a str, id: &str) -> Option<&'a str> {
    let name = name.strip_prefix(id).unwrap_or(name).trim();
    let given = name.split_once('(').map_or(name, |(given, _)| given).trim();
    (!given.is_empty()).then_some(given)
}

/// The given name, else the host and the process: `pi 7`.
pub(crate) fn bare(name: &str, id: &str) -> String {
    given(name, id).map(str::to_owned).unwrap_or_else(|| {
        let host = name.strip_prefix(id).unwrap_or(name).trim();
        host.trim_matches(['(', ')']).replace(", pid ", " ")
    })
}

/// A user: `own` for the user of the server, else digits that are equal for equal users.
pub(crate) fn user(number: u64) -> String {
    if number == 0 { "own".into() } else { format!("{:08x}", number >> 32) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_were_given_else_hosts() {
        assert_eq!(bare("w1 node7 (vm, pid 3)", "w1"), "node7");
        assert_eq!(bare("w1 (vm, pid 3)", "w1"), "vm 3");
        assert_eq!(bare("w1", "w1"), "");
        assert_eq!(given("s1 digits (pi, pid 7)", "s1"), Some("digits"));
        assert_eq!((given("w1 (vm, pid 3)", "w1"), given("w1", "w1")), (None, None));
    }

    #[test]
    fn users_are_digits() {
        assert_eq!((user(0), user(0x1234_5678_0000_0000)), ("own".into(), "12345678".into()));
    }
}
