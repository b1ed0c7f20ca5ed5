//! A program on a pseudo-terminal: its screen as a person sees it, and the keys that the person
//! presses. Every wait has a deadline.

use crate::process::program;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// The deadline of a wait for the next output.
const PATIENCE: Duration = Duration::from_secs(120);

/// Both ends of a terminal of so many columns and rows: the person's and the program's.
fn terminal(columns: u16, rows: u16) -> (File, File) {
    // The program must not hold the person's end.
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = openpt(flags).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let path = OsStr::from_bytes(name.as_bytes());
    let end = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&end, size).unwrap();
    (File::from(master), end)
}

/// Starts a program on a terminal that goes away without a signal once the program has drawn, and
/// waits for its end; `None` if it outlives its terminal by 30 s.
pub(crate) fn abandoned(path: &str, words: &[&str]) -> Option<ExitStatus> {
    let (mut keys, end) = terminal(80, 24);
    let mut command = Command::new(program(path));
    command.args(words).env_remove("GT_CONNECT").env("TERM", "xterm-256color");
    command.stdin(end.try_clone().unwrap()).stdout(end.try_clone().unwrap()).stderr(end);
    let mut child = command.spawn().unwrap();
    drop(command);
    assert!(keys.read(&mut [0; 4096]).unwrap() > 0);
    drop(keys);
    for _ in 0..300 {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let _ = child.kill();
    let _ = child.wait();
    None
}

/// A program on a terminal.
pub(crate) struct Screen {
    keys: File,
    child: Child,
    output: Receiver<Vec<u8>>,
    drawn: vt100::Parser,
}

impl Screen {
    /// Starts a program on a terminal of so many columns and rows.
    pub(crate) fn start(path: &str, words: &[&str], columns: u16, rows: u16) -> Screen {
        let (keys, end) = terminal(columns, rows);
        // A session of its own, so that the terminal of whoever runs the tests has no part in it.
        let mut command = Command::new("setsid");
        command.args(["--ctty", "--wait"]).arg(program(path)).args(words);
        command.env_remove("GT_CONNECT").env_remove("NO_COLOR");
        command.env("TERM", "xterm-256color").env("LC_ALL", "C.UTF-8");
        command.stdin(end.try_clone().unwrap()).stdout(end.try_clone().unwrap()).stderr(end);
        let child = command.spawn().unwrap();
        drop(command);
        let mut reader = keys.try_clone().unwrap();
        let (send, output) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // The last end of the terminal is closed when the program has ended, an error on Linux.
            while let Ok(n @ 1..) = reader.read(&mut bytes) {
                if send.send(bytes[..n].to_vec()).is_err() {
                    return;
                }
            }
        });
        Screen { keys, child, output, drawn: vt100::Parser::new(rows, columns, 0) }
    }

    /// The text on the screen.
    pub(crate) fn text(&self) -> String {
        self.drawn.screen().contents()
    }

    /// Presses keys.
    pub(crate) fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until the screen shows some words.
    #[track_caller]
    pub(crate) fn until(&mut self, words: &str) {
        self.wait(&format!("does not show `{words}`"), |text| text.contains(words));
    }

    /// Waits until the screen shows some words no more.
    #[track_caller]
    pub(crate) fn until_gone(&mut self, words: &str) {
        self.wait(&format!("still shows `{words}`"), |text| !text.contains(words));
    }

    #[track_caller]
    fn wait(&mut self, fault: &str, is_so: impl Fn(&str) -> bool) {
        while !is_so(&self.text()) {
            match self.output.recv_timeout(PATIENCE) {
                Ok(bytes) => self.drawn.process(&bytes),
                Err(why) => panic!("the screen {fault} ({why}):\n{}", self.text()),
            }
        }
    }

    /// Waits for the end of the program.
    #[track_caller]
    pub(crate) fn finish(mut self) -> ExitStatus {
        while self.output.recv_timeout(PATIENCE).is_ok() {}
        self.child.wait().unwrap()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
