//! The keys that a server knows, and the text of their file: a key on each line, `ROLE[,ROLE] KEY
//! [NAME]`. Empty lines and lines that begin with `#` are comments.

use std::fmt;

use super::{Pass, PublicKey, Roles, User};

/// The most keys of a server.
const MAX_KEYS: usize = 1 << 16;

/// A key that a server knows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    /// What a peer with the key may be.
    pub roles: Roles,
    /// The key.
    pub key: PublicKey,
    /// The name of its user. It may be empty.
    pub name: String,
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gap = if self.name.is_empty() { "" } else { " " };
        write!(f, "{} {}{gap}{}", self.roles, self.key, self.name)
    }
}

/// The keys that a server knows: its own, with all roles, and those of its file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Authorized {
    own: PublicKey,
    members: Vec<Member>,
}

impl Authorized {
    /// The keys of a server with this key.
    #[must_use]
    pub fn new(own: PublicKey, members: Vec<Member>) -> Authorized {
        Authorized { own, members }
    }

    /// What a peer with a key may be, if the server knows the key.
    #[must_use]
    pub fn pass(&self, key: &PublicKey) -> Option<Pass> {
        if *key == self.own {
            return Some(Pass::OWNER);
        }
        let lines = self.members.iter().filter(|member| member.key == *key);
        let roles = lines.fold(Roles::NONE, |roles, member| roles.and(member.roles));
        (!roles.is_empty()).then(|| Pass { roles, user: User(key.number()) })
    }
}

/// The keys of a file. The error names the line.
pub(super) fn parse(text: &str) -> Result<Vec<Member>, String> {
    let lines = text.lines().enumerate().filter(|(_, line)| {
        let line = line.trim();
        !line.is_empty() && !line.starts_with('#')
    });
    let members: Result<Vec<Member>, String> = lines
        .map(|(n, line)| member(line).map_err(|why| format!("line {}: {why}", n + 1)))
        .collect();
    members.and_then(|members| match members.len() > MAX_KEYS {
        true => Err(format!("more than {MAX_KEYS} keys")),
        false => Ok(members),
    })
}

fn member(line: &str) -> Result<Member, String> {
    let mut words = line.split_whitespace();
    let mut word = |what: &str| words.next().ok_or_else(|| format!("it has no {what}"));
    let roles = word("role")?.parse()?;
    let key = word("key")?.parse()?;
    Ok(Member { roles, key, name: words.collect::<Vec<_>>().join(" ") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_print_as_they_are_written_and_mistakes_name_theirs() {
        let key = PublicKey([7; 32]);
        let text = format!("# friends\n\nclient,worker {key} ann of pi\nclient {key}\n");
        let members = parse(&text).unwrap();
        let lines: Vec<String> = members.iter().map(Member::to_string).collect();
        assert_eq!(lines, [format!("client,worker {key} ann of pi"), format!("client {key}")]);
        let bad = |line: &str| parse(&format!("{text}{line}")).unwrap_err();
        assert_eq!(bad("client"), "line 5: it has no key");
        assert_eq!(bad("client AAAA"), "line 5: `AAAA` is no key of 44 characters");
        assert!(bad(&format!("boss {key}")).starts_with("line 5: `boss` is no role"));
    }

    #[test]
    fn a_key_has_the_roles_of_all_its_lines_and_the_own_key_has_all() {
        let [own, other, stranger] = [1, 2, 3].map(|byte| PublicKey([byte; 32]));
        let member = |roles| Member { roles, key: other, name: String::new() };
        let known = Authorized::new(own, vec![member(Roles::CLIENT), member(Roles::MONITOR)]);
        assert_eq!(known.pass(&own), Some(Pass::OWNER));
        let pass = known.pass(&other).unwrap();
        assert_eq!(pass.roles, Roles::CLIENT.and(Roles::MONITOR));
        assert!(pass.user > Pass::ANYONE.user);
        assert_eq!(known.pass(&stranger), None);
    }
}
