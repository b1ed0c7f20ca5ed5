//! Runs the programs of the project as a user does: starts them, reads their output, interrupts
//! them, and waits for them.
//!
//! Every wait has a deadline. A program that does not print the expected line, or does not end,
//! fails the test with its whole output. Programs that a test leaves running are killed.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// The deadline of a wait, longer than any step here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// The path of a program of the project, which is built if it is missing.
pub(crate) fn program(path: &str) -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(build).join(path)
}

/// Builds the binaries and examples with the options of this test. Cargo does nothing if they are
/// up to date.
fn build() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folder = test.ancestors().nth(2).unwrap();
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args(["build", "--quiet", "--workspace", "--bins", "--examples", "--target-dir"])
        .arg(folder.parent().unwrap());
    let features = [
        ("torch", cfg!(feature = "torch")),
        ("cuda", cfg!(feature = "cuda")),
        ("otel", cfg!(feature = "otel")),
        ("audio", cfg!(feature = "audio")),
        ("images", cfg!(feature = "images")),
        ("onnx", cfg!(feature = "onnx")),
        ("parquet", cfg!(feature = "parquet")),
        ("tokenizers", cfg!(feature = "tokenizers")),
    ];
    for (feature, _) in features.iter().filter(|(_, wanted)| *wanted) {
        cargo.args(["--features", feature]);
    }
    if folder.file_name().unwrap() == "release" {
        cargo.arg("--release");
    }
    assert!(cargo.current_dir(root()).status().unwrap().success(), "the programs do not build");
    folder.to_path_buf()
}

/// The root of the repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A temporary folder of a test, removed at the end.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(test: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("gt-it-{}-{test}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub(crate) fn path(&self, file: &str) -> String {
        self.0.join(file).to_str().unwrap().to_string()
    }

    pub(crate) fn write(&self, file: &str, content: impl AsRef<[u8]>) -> String {
        std::fs::write(self.path(file), content).unwrap();
        self.path(file)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The results of a finished program.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Finished {
    /// The standard output of a program that must have succeeded.
    #[track_caller]
    pub(crate) fn good(self) -> String {
        assert!(self.status.success(), "{self:#?}");
        self.stdout
    }

    /// The exit status and standard error of a program that must have failed.
    #[track_caller]
    pub(crate) fn bad(self) -> (Option<i32>, String) {
        assert!(!self.status.success(), "{self:#?}");
        (self.status.code(), self.stderr)
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Stream {
    Stdout,
    Stderr,
}

/// A running program.
pub(crate) struct Process {
    name: String,
    child: Child,
    lines: Receiver<(Stream, String)>,
    /// Lines of one stream that came before the latest expected line of the other stream.
    passed: Vec<(Stream, String)>,
    stdout: String,
    stderr: String,
}

impl Process {
    /// Starts `program` with `words` as its arguments, in a plain environment.
    pub(crate) fn start(path: &str, words: &[&str]) -> Process {
        Process::start_with(path, words, &[])
    }

    pub(crate) fn start_with(path: &str, words: &[&str], env: &[(&str, &str)]) -> Process {
        Process::start_by(Command::new(program(path)), path, words, env)
    }

    /// As [`start_with`](Process::start_with), by a command that starts the program.
    pub(crate) fn start_by(
        mut command: Command,
        path: &str,
        words: &[&str],
        env: &[(&str, &str)],
    ) -> Process {
        for name in ["GT_CONNECT", "GT_INSTRUCTION_LOG", "GT_OTEL", "NO_COLOR"] {
            command.env_remove(name);
        }
        command.args(words).envs(env.iter().copied());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (send, lines) = channel();
        let (stdout, stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let also = send.clone();
        std::thread::spawn(move || {
            each_line(stdout, |line| drop(send.send((Stream::Stdout, line))))
        });
        std::thread::spawn(move || {
            each_line(stderr, |line| drop(also.send((Stream::Stderr, line))))
        });
        let name = format!("{path} {}", words.join(" "));
        let (stdout, stderr) = (String::new(), String::new());
        Process { name, child, lines, passed: Vec::new(), stdout, stderr }
    }

    /// Waits for a line that contains `words`, and returns it. Lines before it on the same stream
    /// are passed over for good. The two streams have no order between them, so that lines of the
    /// other stream can still be waited for.
    #[track_caller]
    pub(crate) fn until(&mut self, words: &str) -> String {
        let found = self.passed.iter().position(|(_, line)| line.contains(words));
        let at = found.unwrap_or_else(|| self.read_until(words));
        let (stream, line) = self.passed[at].clone();
        let mut place = 0..;
        self.passed.retain(|(of, _)| place.next() > Some(at) || *of != stream);
        line
    }

    /// Waits for a line that contains `words`, which may have come before lines that were waited
    /// for.
    #[track_caller]
    pub(crate) fn says(&mut self, words: &str) {
        if !self.stdout.contains(words) && !self.stderr.contains(words) {
            self.read_until(words);
        }
    }

    /// Reads to a line that contains `words`. Returns its place among the lines passed over.
    #[track_caller]
    fn read_until(&mut self, words: &str) -> usize {
        loop {
            match self.next_line() {
                Some((stream, line)) => self.passed.push((stream, line)),
                None => panic!("{} ended without saying `{words}`", self.name),
            }
            if self.passed.last().is_some_and(|(_, line)| line.contains(words)) {
                return self.passed.len() - 1;
            }
        }
    }

    /// Interrupts the program, as Ctrl-C does.
    pub(crate) fn interrupt(&self) {
        self.signal("-INT");
    }

    /// Kills the program, as a crash does.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
    }

    /// The number of its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has not ended.
    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits for the end of a program that was killed.
    pub(crate) fn ended(&mut self) {
        self.child.wait().unwrap();
    }

    pub(crate) fn signal(&self, signal: &str) {
        assert!(
            Command::new("kill")
                .args([signal, &self.child.id().to_string()])
                .status()
                .unwrap()
                .success()
        );
    }

    /// Waits for the end of the program.
    #[track_caller]
    pub(crate) fn finish(mut self) -> Finished {
        while self.next_line().is_some() {}
        let status = self.child.wait().unwrap();
        Finished {
            status,
            stdout: std::mem::take(&mut self.stdout),
            stderr: std::mem::take(&mut self.stderr),
        }
    }

    /// The resident memory of the program in KiB.
    pub(crate) fn resident_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// The next line of either stream, or `None` at the end of both.
    #[track_caller]
    fn next_line(&mut self) -> Option<(Stream, String)> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok((stream, line)) => {
                let text = match stream {
                    Stream::Stdout => &mut self.stdout,
                    Stream::Stderr => &mut self.stderr,
                };
                text.push_str(&line);
                text.push('\n');
                Some((stream, line))
            }
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => {
                panic!("{} prints nothing and does not end", self.name)
            }
        }
    }
}

impl Drop for Process {
    /// Ends the program. If the test fails, the output of each of its programs may say why.
    #[expect(clippy::print_stdout, reason = "the harness shows it if the test fails")]
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let lines = self.lines.try_iter().map(|(_, line)| line + "\n");
            let rest: String = lines.collect();
            println!("{} said:\n{}{}{rest}", self.name, self.stdout, self.stderr);
        }
    }
}

fn each_line(stream: impl Read, each: impl Fn(String)) {
    BufReader::new(stream).lines().map_while(Result::ok).for_each(each);
}

/// Runs a program to its end.
#[track_caller]
pub(crate) fn run(path: &str, words: &[&str]) -> Finished {
    Process::start(path, words).finish()
}

/// A server and its workers, each in its own process.
pub(crate) struct Cluster {
    pub(crate) server: Process,
    pub(crate) workers: Vec<Process>,
    pub(crate) address: String,
}

impl Cluster {
    pub(crate) fn start(n_workers: usize) -> Cluster {
        let server = Process::start("gt-cli", &["server", "-p", "0"]);
        Cluster::of(server, n_workers, |address, _| {
            Process::start("gt-cli", &["worker", "--connect", address])
        })
    }

    /// A server, and workers that are started with its address and their numbers.
    pub(crate) fn of(
        mut server: Process,
        n_workers: usize,
        start: impl Fn(&str, usize) -> Process,
    ) -> Cluster {
        let line = server.until("listening at ");
        let address = line.split("listening at ").nth(1).unwrap();
        let address = address.split_whitespace().next().unwrap().to_string();
        let workers = (0..n_workers).map(|i| {
            let mut worker = start(&address, i);
            let line = worker.until("registered with the server at");
            assert!(line.ends_with(&format!(" as w{}", i + 1)), "{line}");
            worker
        });
        let workers = workers.collect();
        Cluster { server, workers, address }
    }
}
