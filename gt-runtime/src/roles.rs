//! What a peer may be, and on whose behalf it connects.

use std::fmt;
use std::str::FromStr;

use crate::wire::Role;

/// A set of roles.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Roles(u8);

/// The roles by name, in the order in which they are printed.
const NAMES: [(&str, Roles); 4] = [
    ("client", Roles::CLIENT),
    ("worker", Roles::WORKER),
    ("monitor", Roles::MONITOR),
    ("operator", Roles::OPERATOR),
];

impl Roles {
    /// No role.
    pub const NONE: Roles = Roles(0);
    /// Programs that record tapes.
    pub const CLIENT: Roles = Roles(1);
    /// Processes that run the tapes of all clients, and see their values.
    pub const WORKER: Roles = Roles(2);
    /// Programs that watch, and run nothing.
    pub const MONITOR: Roles = Roles(4);
    /// Programs that end the sessions of other users.
    pub const OPERATOR: Roles = Roles(8);
    /// Every role.
    pub const ALL: Roles = Roles(15);

    /// Whether it has no role.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self == Roles::NONE
    }

    /// The roles of both sets.
    #[must_use]
    pub fn and(self, other: Roles) -> Roles {
        Roles(self.0 | other.0)
    }

    /// Whether a peer with these roles may say hello in a role. A worker that brings values to
    /// another worker has proved that it knows that worker's secret.
    #[must_use]
    pub fn allow(self, role: Role) -> bool {
        let asked = match role {
            Role::Client => Roles::CLIENT,
            Role::Worker => Roles::WORKER,
            // Clients may ask for what they may see, and end what is theirs.
            Role::Monitor => Roles::MONITOR.and(Roles::CLIENT),
            Role::Operator(_) => Roles::OPERATOR.and(Roles::CLIENT),
            // Events are of all users.
            Role::Tracer(_) => Roles::MONITOR,
            Role::Sibling(_) => return true,
        };
        self.0 & asked.0 != 0
    }

    /// Whether these roles are among them.
    #[must_use]
    pub fn has(self, roles: Roles) -> bool {
        self.0 & roles.0 == roles.0
    }

    pub(super) fn bits(self) -> u8 {
        self.0
    }
}

impl fmt::Display for Roles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = NAMES.iter().filter(|(_, role)| self.0 & role.0 != 0);
        f.write_str(&names.map(|(name, _)| *name).collect::<Vec<_>>().join(","))
    }
}

impl FromStr for Roles {
    type Err = String;

    fn from_str(text: &str) -> Result<Roles, String> {
        text.split(',').try_fold(Roles::NONE, |roles, word| {
            let known = NAMES.iter().find(|(name, _)| *name == word.trim());
            let role = known.ok_or_else(|| {
                format!("`{word}` is no role; the roles are client, worker, monitor and operator")
            })?;
            Ok(roles.and(role.1))
        })
    }
}

/// The user on whose behalf a peer connects: a number that is equal for equal keys.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct User(pub u64);

/// What the transport knows about a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pass {
    /// What it may be.
    pub roles: Roles,
    /// On whose behalf it connects.
    pub user: User,
}

impl Pass {
    /// The user of the server, over a socket file or with the server's own key.
    pub const OWNER: Pass = Pass { roles: Roles::ALL, user: User(0) };
    /// Anyone, over a connection without encryption that the server's user has allowed.
    pub const ANYONE: Pass = Pass { roles: Roles::ALL, user: User(1) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_print_as_they_are_written() {
        for text in ["client", "worker", "client,worker", "client,worker,monitor"] {
            assert_eq!(text.parse::<Roles>().unwrap().to_string(), text);
        }
        assert_eq!("worker, client".parse::<Roles>().unwrap().to_string(), "client,worker");
        assert!("".parse::<Roles>().is_err() && "root".parse::<Roles>().is_err());
    }

    #[test]
    fn a_role_allows_itself_only() {
        assert!(Roles::CLIENT.allow(Role::Client) && !Roles::CLIENT.allow(Role::Worker));
        assert!(Roles::WORKER.allow(Role::Worker) && !Roles::WORKER.allow(Role::Client));
        assert!(!Roles::MONITOR.allow(Role::Client) && !Roles::NONE.allow(Role::Worker));
        assert!(Roles::MONITOR.allow(Role::Monitor) && !Roles::WORKER.allow(Role::Monitor));
        assert!(Roles::ALL.allow(Role::Client) && Roles::ALL.allow(Role::Worker));
    }
}
