//! Engines of one process that share its threads and its memory.
//!
//! An engine that works alone has all threads; engines that work at the same time have equal
//! shares. One limit holds for the memory of all. Results depend on neither.

use std::fmt;
use std::sync::Arc;

use crate::{
    buffer::Pool,
    threads::{Crew, Threads},
};

/// What the engines of a process share. Two teams are equal if they are the same.
#[derive(Clone)]
pub struct Team(Arc<Shared>);

struct Shared {
    crew: Arc<Crew>,
    pool: Arc<Pool>,
    n_engines: usize,
}

impl Team {
    /// So many engines with these threads and so many bytes of memory together.
    pub(super) fn new(
        n_engines: usize,
        threads: usize,
        memory_limit: usize,
        guarded: bool,
    ) -> Team {
        let (crew, pool) = (Crew::new(threads, n_engines), Pool::new(memory_limit, guarded));
        Team(Arc::new(Shared { crew, pool, n_engines }))
    }

    /// The number of engines.
    #[must_use]
    pub fn n_engines(&self) -> usize {
        self.0.n_engines
    }

    /// The threads and the memory of one more engine.
    pub(super) fn join(&self) -> (Threads, Arc<Pool>) {
        (self.0.crew.threads(), Arc::clone(&self.0.pool))
    }
}

impl fmt::Debug for Team {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Team").field("n_engines", &self.0.n_engines).finish_non_exhaustive()
    }
}

impl PartialEq for Team {
    fn eq(&self, other: &Team) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Team {}
