//! `GT_PROFILE=run.json`: a profile of the whole program, written when it ends.
//!
//! `%p` in the name stands for the number of the process. The tables are also written while the
//! program runs, at most once a second: a program that is interrupted, or that exits in the middle,
//! leaves a profile that lacks its timeline and about its last second. A file that cannot be
//! written is a line on standard error; the program ends as it would without a profile.

use std::io::Result;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use super::{Profile, Profiler};
use crate::clock::{self, Time};
use crate::messages;

/// The variable that names the file.
pub const VARIABLE: &str = "GT_PROFILE";

/// The shortest time between two profiles.
const INTERVAL: Duration = Duration::from_secs(1);
/// A profile waits so many times as long as the last one took, which is 1 % of the time.
const REST: u32 = 100;

/// The file, and the profile while it is under way.
struct Wanted {
    path: PathBuf,
    /// Whether the file was there and empty: who made it waits for it, and needs no line.
    is_awaited: bool,
    /// When the file may be written next, while the program runs.
    next: Mutex<Time>,
    _profiler: Option<Profiler>,
}

static WANTED: OnceLock<Option<Wanted>> = OnceLock::new();

thread_local! {
    /// Writes the profile when the program's thread ends: no static is dropped.
    static END: AtEnd = const { AtEnd };
}

/// Begins the profile that the environment asks for, once.
pub(crate) fn begin() {
    if WANTED.get_or_init(wanted).is_some() {
        // A thread that ends has no later work.
        let _ = END.try_with(|_| ());
    }
}

fn wanted() -> Option<Wanted> {
    let path = gt_settings::var(VARIABLE).filter(|path| !path.trim().is_empty())?;
    let path: PathBuf = path.replace("%p", &std::process::id().to_string()).into();
    let found = std::fs::metadata(&path);
    if found.as_ref().map_or(true, std::fs::Metadata::is_file) {
        // Without the thread, the profile is written at the end only.
        let _ = std::thread::Builder::new().name("gt-profile".into()).spawn(meanwhile);
    }
    let is_awaited = found.is_ok_and(|found| found.is_file() && found.len() == 0);
    let next = Mutex::new(clock::now() + INTERVAL);
    Some(Wanted { path, is_awaited, next, _profiler: Profiler::start() })
}

/// Writes the profile so far, again and again.
fn meanwhile() {
    loop {
        std::thread::sleep(INTERVAL);
        if let Some(Some(wanted)) = WANTED.get() {
            let mut next = wanted.lock();
            if *next <= clock::now() && !wanted.write(&mut next, Profiler::sums).unwrap_or(false) {
                // What stands in the way is said at the end.
                return;
            }
        }
    }
}

impl Wanted {
    /// Holds back whoever else would write the file.
    fn lock(&self) -> MutexGuard<'_, Time> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there was a profile to write.
    fn write(&self, next: &mut Time, look: impl Fn() -> Option<Profile>) -> Result<bool> {
        let began = clock::now();
        let Some(profile) = look() else { return Ok(false) };
        put(&self.path, &profile.to_json())?;
        let now = clock::now();
        *next = now + INTERVAL.max(REST * (now - began));
        Ok(true)
    }
}

/// A file appears whole: whoever reads it meanwhile, or ends the program, finds the last one. A
/// pipe or a device is written to, and so is a file in a folder that takes no other.
fn put(path: &Path, text: &str) -> Result<()> {
    let is_file = std::fs::metadata(path).map_or(true, |found| found.is_file());
    if is_file && gt_compiler::write_whole(path, text.as_bytes()).is_ok() {
        return Ok(());
    }
    std::fs::write(path, text)
}

struct AtEnd;

impl Drop for AtEnd {
    fn drop(&mut self) {
        let Some(Some(wanted)) = WANTED.get() else { return };
        let look = || Profiler::look().map(Profile::measured);
        let written = wanted.write(&mut wanted.lock(), look);
        let name = wanted.path.display();
        match written {
            Ok(true) if !wanted.is_awaited => {
                messages::print(&format!(
                    "the profile is in {name}; `gt-cli profile {name}` prints it"
                ));
            }
            Ok(_) => {}
            Err(error) => messages::print(&format!("{VARIABLE}: cannot write {name}: {error}")),
        }
    }
}
