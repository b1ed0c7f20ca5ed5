//! `GT_PROFILE=run.json`: a profile of the whole program, written when it ends.
//!
//! `%p` in the name stands for the number of the process. A file that cannot be written is a line
//! on standard error; the program ends as it would without a profile.

use std::path::PathBuf;
use std::sync::OnceLock;

use super::Profiler;
use crate::messages;

/// The variable that names the file.
pub const VARIABLE: &str = "GT_PROFILE";

/// The file, and the profile while it is under way.
struct Wanted {
    path: PathBuf,
    _profiler: Option<Profiler>,
}

/// Begins the profile that the environment asks for, once.
pub(crate) fn begin() {
    static WANTED: OnceLock<Option<Wanted>> = OnceLock::new();
    thread_local! {
        /// Writes the profile when the program's thread ends: no static is dropped.
        static END: AtEnd = const { AtEnd };
    }
    let wanted = WANTED.get_or_init(|| {
        let path = gt_settings::var(VARIABLE).filter(|path| !path.trim().is_empty())?;
        let path = path.replace("%p", &std::process::id().to_string()).into();
        Some(Wanted { path, _profiler: Profiler::start() })
    });
    if wanted.is_some() {
        // A thread that ends has no later work.
        let _ = END.try_with(|_| ());
        PATH.get_or_init(|| wanted.as_ref().map(|wanted| wanted.path.clone()));
    }
}

/// The file, for the end of the program.
static PATH: OnceLock<Option<PathBuf>> = OnceLock::new();

struct AtEnd;

impl Drop for AtEnd {
    fn drop(&mut self) {
        let (Some(Some(path)), Some(profile)) = (PATH.get(), Profiler::look()) else { return };
        let name = path.display();
        messages::print(&match std::fs::write(path, profile.to_json()) {
            Ok(()) => format!("the profile is in {name}; `gt-cli profile {name}` prints it"),
            Err(error) => format!("{VARIABLE}: cannot write {name}: {error}"),
        });
    }
}
