//! A few persistent threads that share the tasks of one kernel.
//!
//! Guarantees: `run` returns when every task has run exactly once; which thread runs a task never
//! matters to results, since tasks write disjoint memory and are cut by shape. Idle threads spin
//! briefly, then sleep. It is not a general executor: one caller, no nesting.
#![expect(unsafe_code, reason = "threads run a closure that lives on the caller's stack")]

use std::{
    ptr,
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering::SeqCst},
    },
    thread::JoinHandle,
};

/// The environment variable that says how many threads a kernel may use.
pub const VARIABLE: &str = "GT_THREADS";

/// The number in [`VARIABLE`], at least 1; otherwise the cores that this process may use. The
/// standard library knows affinity and, on Linux, the CPU quotas of cgroups (v1 and v2), so that a
/// container with two of 64 cores has two threads.
pub fn wanted() -> usize {
    let text = std::env::var(VARIABLE).ok();
    text.and_then(|text| parse(&text)).unwrap_or_else(cores)
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// A number of threads, if a text is one.
pub fn parse(text: &str) -> Option<usize> {
    text.trim().parse().ok().filter(|n| *n > 0)
}

/// Turns an idle thread spins before it sleeps: some tens of microseconds.
const SPINS: u32 = 2_000;

/// The caller's thread and `n - 1` others.
pub(crate) struct Threads {
    shared: Arc<Shared>,
    handles: Vec<JoinHandle<()>>,
}

struct Shared {
    /// Counts jobs, so that a sleeper sees a new one.
    epoch: AtomicU64,
    job: AtomicPtr<Job<'static>>,
    /// Threads that may hold the job's address.
    active: AtomicUsize,
    sleepers: AtomicUsize,
    stop: AtomicBool,
    gate: Mutex<()>,
    wake: Condvar,
}

struct Job<'a> {
    task: &'a (dyn Fn(usize, usize) + Sync),
    n_tasks: usize,
    next: AtomicUsize,
}

impl Job<'_> {
    fn work(&self, thread: usize) {
        loop {
            let i = self.next.fetch_add(1, SeqCst);
            if i >= self.n_tasks {
                return;
            }
            (self.task)(i, thread);
        }
    }
}

impl Threads {
    pub(crate) fn new(n: usize) -> Threads {
        let shared = Arc::new(Shared {
            epoch: AtomicU64::new(0),
            job: AtomicPtr::new(ptr::null_mut()),
            active: AtomicUsize::new(0),
            sleepers: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            gate: Mutex::new(()),
            wake: Condvar::new(),
        });
        let spawn = |i: usize| {
            let shared = shared.clone();
            // A host that refuses a thread leaves the caller with fewer, which changes no result.
            std::thread::Builder::new()
                .name(format!("gt-kernel-{i}"))
                .spawn(move || shared.serve(i))
                .ok()
        };
        let handles = (1..n.max(1)).filter_map(spawn).collect();
        Threads { shared, handles }
    }

    /// Threads that work, the caller's included.
    pub(crate) fn count(&self) -> usize {
        self.handles.len() + 1
    }

    /// Runs `task(0, thread)`, .., `task(n_tasks - 1, thread)`, in any order and on any thread: 0
    /// is the caller's.
    pub(crate) fn run(&self, n_tasks: usize, task: &(dyn Fn(usize, usize) + Sync)) {
        if n_tasks <= 1 || self.handles.is_empty() {
            return (0..n_tasks).for_each(|i| task(i, 0));
        }
        let job = Job { task, n_tasks, next: AtomicUsize::new(0) };
        let _open = Open { shared: &self.shared };
        self.shared.job.store(ptr::from_ref(&job).cast_mut().cast(), SeqCst);
        self.shared.epoch.fetch_add(1, SeqCst);
        if self.shared.sleepers.load(SeqCst) > 0 {
            let _gate = self.shared.gate.lock().unwrap_or_else(PoisonError::into_inner);
            self.shared.wake.notify_all();
        }
        job.work(0);
    }
}

/// Closes the job when dropped, also by a panic: nobody holds its address afterwards.
struct Open<'a> {
    shared: &'a Shared,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.shared.job.store(ptr::null_mut(), SeqCst);
        let mut spins = 0u32;
        while self.shared.active.load(SeqCst) > 0 {
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

impl Shared {
    fn serve(&self, thread: usize) {
        let mut seen = 0;
        while let Some(epoch) = self.wait(seen) {
            seen = epoch;
            self.active.fetch_add(1, SeqCst);
            let _active = Active(&self.active);
            let job = self.job.load(SeqCst);
            // SAFETY: null, or a job whose owner first nulls the pointer and then waits for
            // `active`, which was raised before the load.
            if let Some(job) = unsafe { job.as_ref() } {
                job.work(thread);
            }
        }
    }

    /// The number of the next job, or `None` at the end.
    fn wait(&self, seen: u64) -> Option<u64> {
        let ready = || self.stop.load(SeqCst) || self.epoch.load(SeqCst) != seen;
        for _ in 0..SPINS {
            if ready() {
                break;
            }
            std::hint::spin_loop();
        }
        if !ready() {
            let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
            self.sleepers.fetch_add(1, SeqCst);
            while !ready() {
                gate = self.wake.wait(gate).unwrap_or_else(PoisonError::into_inner);
            }
            self.sleepers.fetch_sub(1, SeqCst);
        }
        (!self.stop.load(SeqCst)).then(|| self.epoch.load(SeqCst))
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.shared.stop.store(true, SeqCst);
        drop(self.shared.gate.lock().unwrap_or_else(PoisonError::into_inner));
        self.shared.wake.notify_all();
        self.handles.drain(..).for_each(|h| drop(h.join()));
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
