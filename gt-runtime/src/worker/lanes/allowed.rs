//! Where a worker asks for lanes, and where it takes part in one: by the setting, and by what would
//! have to be encrypted.

use crate::wire::Door;
use crate::worker::wanted::Wanted;

impl Wanted {
    /// Whether a worker asks for a lane beside its road to a door. `by_file` is whether the road is
    /// a socket file, with memory that both ends share.
    pub(super) fn asks(self, door: &Door, by_file: bool) -> bool {
        match self {
            Wanted::Sockets => false,
            Wanted::Gloo => self.takes(door),
            // Sockets that need not encrypt are faster than Gloo.
            Wanted::Auto => door.local && door.sealed && !by_file,
        }
    }

    /// The fewest bytes of a chunk that goes over a lane. Where speed decides, those that are not
    /// faster there remain on the sockets.
    pub(super) fn least(self) -> usize {
        match self {
            Wanted::Auto | Wanted::Sockets => 512 << 10,
            Wanted::Gloo => 64 << 10,
        }
    }

    /// Whether a worker with this door takes part in a lane to it. Nobody reads what stays on the
    /// machine, and what is not encrypted anyway may be read.
    pub(super) fn takes(self, door: &Door) -> bool {
        self != Wanted::Sockets && (door.local || !door.sealed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_lane_carries_what_has_to_be_encrypted() {
        let door = |local, sealed| Door { address: "a:1".into(), local, sealed, key: [1; 16] };
        let asks = |wanted: Wanted, local, sealed| {
            [false, true].map(|by_file| wanted.asks(&door(local, sealed), by_file))
        };
        for wanted in [Wanted::Auto, Wanted::Sockets, Wanted::Gloo] {
            assert!(!wanted.takes(&door(false, true)));
            assert_eq!(asks(wanted, false, true), [false; 2]);
        }
        assert_eq!(asks(Wanted::Auto, true, true), [true, false]);
        assert_eq!(asks(Wanted::Auto, true, false), [false; 2]);
        assert_eq!(asks(Wanted::Auto, false, false), [false; 2]);
        assert_eq!(asks(Wanted::Gloo, false, false), [true; 2]);
        assert_eq!(asks(Wanted::Sockets, true, true), [false; 2]);
    }
}
