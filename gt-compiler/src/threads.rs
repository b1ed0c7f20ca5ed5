//! A few persistent threads that share the tasks of kernels.
//!
//! The engines of a process share one [`Crew`]. An engine that works alone has all its threads.
//! Engines that work at the same time have equal shares, so there are never more threads at work
//! than the crew has.
//!
//! Guarantees: `run` returns when every task has run exactly once; which thread runs a task never
//! matters to results, since tasks write disjoint memory and are cut by shape. `calls` wakes as
//! many threads as a job has tasks for. It is not a general executor: one caller for each engine,
//! no nesting.
#![expect(unsafe_code, reason = "threads run a closure that lives on the caller's stack")]

mod calls;

use std::{
    ptr,
    sync::{
        Arc,
        atomic::{
            AtomicBool, AtomicPtr, AtomicUsize,
            Ordering::{Relaxed, SeqCst},
        },
    },
    thread::JoinHandle,
};

use calls::{Call, Calls, SPINS};

/// The environment variable that says how many threads a kernel may use.
pub const VARIABLE: &str = "GT_THREADS";

/// The number in [`VARIABLE`], at least 1; otherwise the cores that this process may use. The
/// standard library knows affinity and, on Linux, the CPU quotas of cgroups (v1 and v2), so that a
/// container with two of 64 cores has two threads.
pub fn wanted() -> usize {
    let text = gt_settings::var(VARIABLE);
    text.and_then(|text| parse(&text)).unwrap_or_else(cores)
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// A number of threads, if a text is one.
fn parse(text: &str) -> Option<usize> {
    text.trim().parse().ok().filter(|n| *n > 0)
}

/// The threads that engines share: those of their callers, and helpers.
pub(crate) struct Crew {
    shared: Arc<Shared>,
    helpers: Vec<JoinHandle<()>>,
}

/// One engine's part of a crew.
pub(crate) struct Threads {
    crew: Arc<Crew>,
    /// The number of its slot. None if all slots were taken: then the caller's thread works alone.
    slot: Option<usize>,
    /// Whether the jobs of now are worth waking threads.
    rouses: AtomicBool,
}

struct Shared {
    calls: Calls,
    /// One for each engine.
    slots: Box<[Slot]>,
    /// Engines at work.
    n_busy: AtomicUsize,
}

/// Where an engine opens its jobs. Slots are apart in memory, because every helper reads them.
#[derive(Default)]
#[repr(align(128))]
struct Slot {
    taken: AtomicBool,
    job: AtomicPtr<Job<'static>>,
    /// Threads that may hold the job's address.
    active: AtomicUsize,
}

struct Job<'a> {
    task: &'a (dyn Fn(usize, usize) + Sync),
    n_tasks: usize,
    /// The next task of each part.
    parts: [Part; PARTS],
    /// The number of threads that may work on it, and of helpers that came.
    width: usize,
    joined: AtomicUsize,
}

/// Parts of a job at most. Further threads begin with a part that is another's, too.
const PARTS: usize = 16;

/// A part of the tasks of a job, apart in memory because threads take tasks from it.
#[derive(Default)]
#[repr(align(64))]
struct Part {
    next: AtomicUsize,
}

impl Job<'_> {
    /// Each thread takes the tasks of its own part first, and then those that are left of others.
    /// So an equal job finds what a thread wrote or read before in that thread's cache.
    fn work(&self, thread: usize) {
        let n_parts = self.width.min(PARTS);
        let first = |part: usize| part * self.n_tasks / n_parts;
        for part in (thread..thread + n_parts).map(|part| part % n_parts) {
            let (next, end) = (&self.parts[part].next, first(part + 1) - first(part));
            while next.load(Relaxed) < end {
                let i = next.fetch_add(1, SeqCst);
                if i < end {
                    (self.task)(first(part) + i, thread);
                }
            }
        }
    }

    /// The number of a helper among the threads of this job, if there is room for it. With room for
    /// all, each has the same number every time, so that its scratch memory stays in its cache.
    fn join(&self, helper: usize, n_helpers: usize) -> Option<usize> {
        if self.width > n_helpers {
            return Some(helper);
        }
        Some(self.joined.fetch_add(1, SeqCst) + 1).filter(|thread| *thread < self.width)
    }
}

impl Crew {
    /// So many threads for so many engines. A host that refuses a thread leaves them with fewer,
    /// which changes no result.
    pub(crate) fn new(n_threads: usize, n_engines: usize) -> Arc<Crew> {
        let n_helpers = n_threads.max(1) - 1;
        let shared = Arc::new(Shared {
            calls: Calls::new(n_helpers),
            slots: (0..n_engines).map(|_| Slot::default()).collect(),
            n_busy: AtomicUsize::new(0),
        });
        let spawn = |i: usize| {
            let shared = shared.clone();
            std::thread::Builder::new()
                .name(format!("gt-kernel-{i}"))
                .spawn(move || shared.serve(i, n_helpers))
                .ok()
        };
        let helpers = (1..=n_helpers).filter_map(spawn).collect();
        Arc::new(Crew { shared, helpers })
    }

    /// All threads, one caller's included.
    pub(crate) fn count(&self) -> usize {
        self.helpers.len() + 1
    }

    /// The threads of one more engine.
    pub(crate) fn threads(self: &Arc<Crew>) -> Threads {
        let mut slots = self.shared.slots.iter();
        let slot = slots.position(|slot| !slot.taken.swap(true, SeqCst));
        Threads { crew: Arc::clone(self), slot, rouses: AtomicBool::new(true) }
    }
}

impl Threads {
    /// Threads of one engine that shares them with no other.
    pub(crate) fn new(n: usize) -> Threads {
        Crew::new(n, 1).threads()
    }

    /// The most threads that may work for this engine.
    pub(crate) fn most(&self) -> usize {
        self.crew.count()
    }

    /// Threads that may work for this engine now, the caller's included.
    pub(crate) fn count(&self) -> usize {
        (self.crew.count() / self.crew.shared.n_busy()).max(1)
    }

    /// Counts this engine among those at work, until the guard is dropped. Unless `rouses`, its
    /// jobs are not worth waking a thread that sleeps.
    pub(crate) fn at_work(&self, rouses: bool) -> AtWork<'_> {
        self.rouses.store(rouses, Relaxed);
        self.crew.shared.n_busy.fetch_add(1, SeqCst);
        AtWork(&self.crew.shared.n_busy)
    }

    /// Runs `task(0, thread)`, .., `task(n_tasks - 1, thread)`, in any order and on any thread: 0
    /// is the caller's.
    pub(crate) fn run(&self, n_tasks: usize, task: &(dyn Fn(usize, usize) + Sync)) {
        let (shared, width) = (&*self.crew.shared, self.count());
        let slot = self.slot.and_then(|slot| shared.slots.get(slot));
        let Some(slot) = slot.filter(|_| n_tasks > 1 && width > 1) else {
            return (0..n_tasks).for_each(|i| task(i, 0));
        };
        let job = Job { task, n_tasks, parts: Default::default(), width, joined: 0.into() };
        let _open = Open { slot };
        slot.job.store(ptr::from_ref(&job).cast_mut().cast(), SeqCst);
        let wanted = shared.wanted(n_tasks, self.crew.helpers.len());
        shared.calls.call(wanted, self.rouses.load(Relaxed));
        job.work(0);
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        let slot = self.slot.and_then(|slot| self.crew.shared.slots.get(slot));
        slot.into_iter().for_each(|slot| slot.taken.store(false, SeqCst));
    }
}

/// Counts an engine among those at work.
pub(crate) struct AtWork<'a>(&'a AtomicUsize);

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

/// Closes the job when dropped, also by a panic: nobody holds its address afterwards.
struct Open<'a> {
    slot: &'a Slot,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.slot.job.store(ptr::null_mut(), SeqCst);
        let mut spins = 0u32;
        while self.slot.active.load(SeqCst) > 0 {
            spins += 1;
            if spins < SPINS { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
    }
}

/// Takes part in the count of threads that may hold a job's address.
struct Active<'a>(&'a AtomicUsize);

impl Drop for Active<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

impl Slot {
    /// Helps with the open job, if there is one and it has room.
    fn help(&self, helper: usize, n_helpers: usize) {
        if self.job.load(SeqCst).is_null() {
            return;
        }
        self.active.fetch_add(1, SeqCst);
        let _active = Active(&self.active);
        let job = self.job.load(SeqCst);
        // SAFETY: null, or a job whose owner first nulls the pointer and then waits for `active`,
        // which was raised before the load.
        if let Some(job) = unsafe { job.as_ref() }
            && let Some(thread) = job.join(helper, n_helpers)
        {
            job.work(thread);
        }
    }
}

impl Shared {
    /// Engines at work, at least the one that asks.
    fn n_busy(&self) -> usize {
        self.n_busy.load(Relaxed).max(1)
    }

    /// How many helpers may be awake. The thread of each engine at work takes the place of one.
    fn n_awake(&self, n_helpers: usize) -> usize {
        (n_helpers + 1).saturating_sub(self.n_busy())
    }

    /// How many helpers a job of so many tasks calls. Where engines share them, the first ones may
    /// be at work for another engine.
    fn wanted(&self, n_tasks: usize, n_helpers: usize) -> usize {
        match self.n_busy() {
            1 => n_helpers.min(n_tasks - 1),
            _ => self.n_awake(n_helpers),
        }
    }

    fn serve(&self, helper: usize, n_helpers: usize) {
        let (mut seen, may_watch) = (Call::default(), || helper <= self.n_awake(n_helpers));
        while let Some(call) = self.calls.wait(seen, helper, may_watch) {
            seen = call;
            self.slots.iter().for_each(|slot| slot.help(helper, n_helpers));
        }
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.shared.calls.end(self.helpers.iter().map(JoinHandle::thread));
        self.helpers.drain(..).for_each(|h| drop(h.join()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn a_number_of_threads_is_positive() {
        assert_eq!(
            ["3", " 64 ", "0", "-1", "many"].map(parse),
            [Some(3), Some(64), None, None, None]
        );
    }

    /// The threads that a group's `cpu.max` (cgroup v2) allows: the whole cores of its quota, at
    /// least 1. None without a limit.
    fn quota(cpu_max: &str) -> Option<usize> {
        let (quota, period) = cpu_max.trim().split_once(' ')?;
        let (quota, period): (usize, usize) = (quota.parse().ok()?, period.parse().ok()?);
        Some(quota.checked_div(period)?.max(1))
    }

    /// The standard library reads the quotas, so this compares it with them.
    #[test]
    fn no_more_threads_than_the_quotas_of_the_process_allow() {
        let texts = ["200000 100000\n", "150000 100000", "50000 100000", "max 100000", "1 0", ""];
        assert_eq!(texts.map(quota), [Some(2), Some(1), Some(1), None, None, None]);
        let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let Some(group) = groups.lines().find_map(|line| line.strip_prefix("0::/")) else { return };
        let folder = Path::new("/sys/fs/cgroup").join(group);
        for folder in folder.ancestors() {
            let text = std::fs::read_to_string(folder.join("cpu.max")).unwrap_or_default();
            assert!(quota(&text).is_none_or(|limit| cores() <= limit), "{folder:?}: {text}");
        }
    }

    #[test]
    fn engines_at_work_have_equal_shares() {
        let crew = Crew::new(4, 2);
        let (a, b) = (crew.threads(), crew.threads());
        assert_eq!((a.most(), a.count(), b.count()), (4, 4, 4));
        let first = a.at_work(true);
        assert_eq!((a.count(), b.count()), (4, 4));
        let second = b.at_work(true);
        assert_eq!((a.count(), b.count()), (2, 2));
        drop(first);
        assert_eq!(b.count(), 4);
        drop(second);
        // The slot of an engine that is gone is taken again.
        drop(a);
        let (again, beyond) = (crew.threads(), crew.threads());
        assert_eq!((again.slot, beyond.slot), (Some(0), None));
        beyond.run(3, &|_, thread| assert_eq!(thread, 0));
    }

    /// Three engines run jobs at the same time: every task runs once, two tasks of one thread's
    /// number never run together, and every number is one of the crew's.
    #[test]
    fn engines_that_share_threads_run_their_own_tasks() {
        let crew = Crew::new(6, 3);
        let engine = |threads: Threads| {
            let in_use: Vec<AtomicBool> = (0..6).map(|_| AtomicBool::new(false)).collect();
            for n_tasks in (0..40).cycle().take(1500) {
                let _at_work = threads.at_work(n_tasks % 3 > 0);
                let counts: Vec<AtomicUsize> = (0..n_tasks).map(|_| AtomicUsize::new(0)).collect();
                threads.run(n_tasks, &|i, thread| {
                    assert!(!in_use[thread].swap(true, SeqCst), "{thread} twice");
                    counts[i].fetch_add(1, SeqCst);
                    assert!(in_use[thread].swap(false, SeqCst));
                });
                assert!(counts.iter().all(|c| c.load(SeqCst) == 1));
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..3 {
                let threads = crew.threads();
                scope.spawn(move || engine(threads));
            }
        });
    }

    #[test]
    fn every_task_runs_once() {
        for n in [1, 2, 5] {
            let threads = Threads::new(n);
            for tasks in (0..50).chain([1000]).cycle().take(2000) {
                let counts: Vec<AtomicUsize> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
                threads.run(tasks, &|i, thread| {
                    assert!(thread < n);
                    counts[i].fetch_add(1, SeqCst);
                });
                assert!(counts.iter().all(|c| c.load(SeqCst) == 1));
            }
        }
    }
}
