//! The file of a log, and the thread that writes it.
//!
//! Lines are collected in memory (`lines`), and one thread writes them some milliseconds later, so
//! a line costs no system call. While lines come, that thread wakes by itself; nobody wakes it.
//! The memory is bounded: if a full pipe or a slow disk does not take the lines, lines are left
//! out and counted, and nobody waits. If the file cannot be written, the sink says so once and
//! takes no more lines. The last lines are written when the sink is dropped, which waits for a
//! second at most.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::config::{Format, LogConfig};
use super::line::Line;
use super::lines::Lines;
use super::remark;
use crate::clock::Time;
use crate::messages;
use crate::words::Facts;

/// The time in which lines are collected before they are written.
const DELAY: Duration = Duration::from_millis(20);
/// The bytes at which they are written before: so many stay in the caches.
const MANY: usize = 256 << 10;
/// The most bytes that wait for the file.
const MOST: usize = 16 << 20;
/// The most full files that are kept: `gt.log.1` is the newest of them.
const KEPT: usize = 3;
/// The longest wait for the file at the end of the program.
pub(super) const FAREWELL: Duration = Duration::from_secs(1);

/// A file that is written in the background.
#[derive(Debug)]
pub(super) struct Sink {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Notified when the writer has something to do.
    wake: Condvar,
    /// Notified when the writer has written.
    wrote: Condvar,
}

/// The lines that wait for the writer.
#[derive(Debug, Default)]
pub(super) struct State {
    lines: Lines,
    /// The number of the last line.
    sequence: u64,
    /// The number of lines left out.
    lost: u64,
    /// Whether the writer waits for a line.
    is_idle: bool,
    /// Whether somebody waits for the writer.
    is_urgent: bool,
    is_writing: bool,
    is_closed: bool,
    /// Whether the file cannot be written.
    is_dead: bool,
}

impl State {
    /// Adds a line of numbers, or counts it if there is no room. False if there is no room for its
    /// name.
    #[inline]
    pub(super) fn tell(
        &mut self,
        now: Time,
        line: &Line<'_>,
        command: &'static str,
        facts: Facts,
    ) -> bool {
        if !self.has_room() {
            return true;
        }
        let is_told = self.lines.tell(now, line, command, facts);
        self.sequence += u64::from(is_told);
        is_told
    }

    /// Adds a line, whose text with its number is made now.
    pub(super) fn print(&mut self, print: impl FnOnce(&mut String, u64)) {
        if self.has_room() {
            self.sequence += 1;
            let n = self.sequence;
            self.lines.print(|text| print(text, n));
        }
    }

    /// Whether there is room for a line. A line for which there is none is counted.
    fn has_room(&mut self) -> bool {
        let full = self.lines.bytes() >= MOST;
        self.lost += u64::from(full && !self.is_dead);
        !full && !self.is_dead
    }

    fn is_settled(&self) -> bool {
        self.is_dead || !self.is_writing && self.lines.is_empty() && self.lost == 0
    }
}

impl Sink {
    /// A new file that begins with this header.
    pub(super) fn open(config: &LogConfig, header: String) -> std::io::Result<Sink> {
        let path = config.own_path();
        // Opening a pipe waits for its reader, so the writer does it.
        let file = if is_regular(&path) { Some(File::create(&path)?) } else { None };
        let out =
            Out { limit: config.size.filter(|_| file.is_some()), file, path, header, size: 0 };
        let (shared, format) = (Arc::new(Shared::default()), config.format);
        let of_thread = shared.clone();
        let work = move || of_thread.write_all(format, out);
        std::thread::Builder::new().name("gt-log".into()).spawn(work)?;
        Ok(Sink { shared })
    }

    /// The waiting lines, to add to them.
    #[inline]
    pub(super) fn lines(&self) -> Adding<'_> {
        Adding { state: self.shared.lock(), wake: &self.shared.wake }
    }

    /// Waits until all lines are written, or for this long.
    pub(super) fn flush(&self, patience: Duration) {
        let mut state = self.shared.lock();
        state.is_urgent = true;
        self.shared.wake.notify_one();
        let waiting = |state: &mut State| !state.is_settled();
        drop(self.shared.wrote.wait_timeout_while(state, patience, waiting));
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.flush(FAREWELL);
        self.shared.lock().is_closed = true;
        self.shared.wake.notify_one();
    }
}

/// The waiting lines. An idle writer is told of them when this is dropped.
#[derive(Debug)]
pub(super) struct Adding<'a> {
    pub(super) state: MutexGuard<'a, State>,
    wake: &'a Condvar,
}

impl Drop for Adding<'_> {
    fn drop(&mut self) {
        let state = &mut *self.state;
        let begins = state.is_idle && !state.lines.is_empty();
        let are_many = !state.is_urgent && !state.is_writing && state.lines.bytes() >= MANY;
        if begins || are_many {
            (state.is_idle, state.is_urgent) = (false, state.is_urgent || are_many);
            self.wake.notify_one();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic within a line leaves a part of it, which harms no other line.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The work of the writer: until the sink is closed and nothing is left to write.
    fn write_all(&self, format: Format, mut out: Out) {
        if let Err(error) = out.begin() {
            return self.die(&out.path, &error);
        }
        let (mut spare, mut portion) = (Lines::default(), String::new());
        while let Some((mut lines, last, lost)) = self.take(std::mem::take(&mut spare)) {
            let wrote = lines.write((format, last), &mut portion, |text| out.write(text));
            if let Err(error) = wrote.and_then(|()| out.apologize(format, lost)) {
                return self.die(&out.path, &error);
            }
            self.lock().is_writing = false;
            self.wrote.notify_all();
            lines.clear();
            spare = lines;
        }
    }

    /// Waits for lines. Returns them with the number of the last one and the number of lines left
    /// out, or None at the end.
    fn take(&self, spare: Lines) -> Option<(Lines, u64, u64)> {
        let mut state = self.lock();
        let nothing = |s: &State| s.lines.is_empty() && s.lost == 0;
        loop {
            let early = |s: &mut State| !s.is_urgent && !s.is_closed;
            let waited = self.wake.wait_timeout_while(state, DELAY, early);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            if !nothing(&state) || state.is_closed {
                break;
            }
            (state.is_idle, state.is_urgent) = (true, false);
            let idle = |s: &mut State| nothing(s) && !s.is_closed;
            state = self.wake.wait_while(state, idle).unwrap_or_else(PoisonError::into_inner);
            state.is_idle = false;
        }
        if nothing(&state) {
            return None;
        }
        (state.is_urgent, state.is_writing) = (false, true);
        let lines = std::mem::replace(&mut state.lines, spare);
        Some((lines, state.sequence, std::mem::take(&mut state.lost)))
    }

    /// Ends the log. A full disk does not fail the program, nor pass in silence.
    fn die(&self, path: &Path, error: &std::io::Error) {
        let name = path.display();
        messages::print(&format_args!("the instruction log {name} ends here: {error}"));
        let mut state = self.lock();
        (state.is_dead, state.lines) = (true, Lines::default());
        self.wrote.notify_all();
    }
}

/// Whether a path is a file, or nothing yet. A terminal or a pipe is not.
fn is_regular(path: &Path) -> bool {
    std::fs::metadata(path).map_or(true, |found| found.is_file())
}

/// The file, with the files before it.
struct Out {
    file: Option<File>,
    path: PathBuf,
    header: String,
    size: u64,
    limit: Option<u64>,
}

impl Out {
    fn begin(&mut self) -> std::io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(File::options().write(true).open(&self.path)?),
        };
        file.write_all(self.header.as_bytes())?;
        self.size = self.header.len() as u64;
        Ok(())
    }

    /// Writes whole lines. A file that is full gives way to a new one.
    fn write(&mut self, mut lines: &str) -> std::io::Result<()> {
        while !lines.is_empty() {
            let room = self.limit.map_or(u64::MAX, |limit| limit.saturating_sub(self.size));
            let fit = usize::try_from(room).unwrap_or(usize::MAX).min(lines.len());
            let end = lines.as_bytes()[..fit].iter().rposition(|&byte| byte == b'\n');
            let is_new = self.size == self.header.len() as u64;
            let end = match end {
                Some(at) => at + 1,
                // A line that no file has room for makes a file larger.
                None if is_new => lines.find('\n').map_or(lines.len(), |at| at + 1),
                None => {
                    self.rotate()?;
                    continue;
                }
            };
            let (now, later) = lines.split_at(end);
            if let Some(file) = &mut self.file {
                file.write_all(now.as_bytes())?;
            }
            self.size += now.len() as u64;
            lines = later;
        }
        Ok(())
    }

    fn apologize(&mut self, format: Format, lost: u64) -> std::io::Result<()> {
        let text = format!("{lost} lines are missing here: the file was too slow");
        if lost > 0 { self.write(&remark(format, &text)) } else { Ok(()) }
    }

    /// Renames the full file, and begins a new one.
    fn rotate(&mut self) -> std::io::Result<()> {
        let old = |n: usize| {
            let mut name = self.path.clone().into_os_string();
            name.push(format!(".{n}"));
            PathBuf::from(name)
        };
        for n in (1..KEPT).rev() {
            // There are fewer in the beginning.
            let _ = std::fs::rename(old(n), old(n + 1));
        }
        std::fs::rename(&self.path, old(1))?;
        self.file = Some(File::create(&self.path)?);
        self.begin()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("gt-sink-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn a_full_file_gives_way_to_a_new_one_and_the_last_files_are_kept() {
        let folder = folder("rotate");
        let path = folder.join("gt.log");
        let config = LogConfig { size: Some(100), ..LogConfig::new(&path) };
        let sink = Sink::open(&config, "head\n".into()).unwrap();
        for n in 0..60 {
            sink.lines().state.print(|text, _| text.push_str(&format!("line {n:03}\n")));
        }
        drop(sink);
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
        let names = ["gt.log.3", "gt.log.2", "gt.log.1", "gt.log"];
        let texts = names.map(read);
        std::fs::remove_dir_all(&folder).unwrap();
        let lines: Vec<&str> = texts.iter().flat_map(|text| text.lines().skip(1)).collect();
        assert!(texts.iter().all(|text| text.starts_with("head\n") && text.len() <= 100));
        assert_eq!(lines.last(), Some(&"line 059"));
        let first: usize = lines[0][5..].parse().unwrap();
        assert_eq!(lines.len(), 60 - first, "no line between the first and the last is missing");
    }

    #[test]
    fn a_file_that_cannot_be_written_ends_the_log_and_nothing_else() {
        let config = LogConfig::new("/dev/full");
        let sink = Sink::open(&config, "head\n".into()).unwrap();
        sink.lines().state.print(|text, _| text.push_str("a line\n"));
        sink.flush(Duration::from_secs(60));
        let mut lines = sink.lines();
        assert!(!lines.state.has_room() && lines.state.lines.is_empty());
    }

    #[test]
    fn lines_for_which_there_is_no_room_are_counted() {
        let mut state = State::default();
        state.print(|text, _| text.push_str(&"x".repeat(MOST)));
        (0..2).for_each(|_| state.print(|_, _| panic!("there is no room")));
        assert_eq!((state.lost, state.sequence), (2, 1));
        state.lines.clear();
        assert!(state.has_room());
        assert_eq!(remark(Format::Json, "2 \"lines\""), "{\"note\":\"2 \\\"lines\\\"\"}\n");
        assert_eq!(remark(Format::Seed, "2 lines"), "# 2 lines\n");
    }
}
