//! Starts and stops programs; waits for their output, never for the clock.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use breme_conformance::{Answer, read_answers};
use breme_testkit::reserved_address;
use rustix::fs::{CWD, FileType, Mode, mknodat};
pub(crate) use rustix::process::Signal;
use rustix::process::{Pid, kill_process};

/// Long, since a busy machine must not fail a test; only reached on failure.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
/// Between two looks at what a test waits for: to spin would take the processor from the programs under test.
pub(crate) const POLL_PAUSE: Duration = Duration::from_millis(2);

/// The drivers that every server test runs on.
pub(crate) static DRIVERS: LazyLock<Vec<&str>> = LazyLock::new(|| match breme_driver::probe_uring() {
    Ok(()) => vec!["uring", "events", "threads"],
    Err(lack) => {
        eprintln!("the driver uring is not tested: {lack}");
        vec!["events", "threads"]
    }
});

/// Those whose threads serve many connections each.
pub(crate) fn many_per_thread() -> impl Iterator<Item = &'static str> {
    DRIVERS.iter().copied().filter(|&driver| driver != "threads")
}

/// A server on a free port until the end of the test process: `serve` handles each connection, on a thread of its own.
/// Its result is ignored.
pub(crate) fn serve_each<T>(serve: impl Fn(TcpStream) -> T + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let serve = Arc::new(serve);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = Arc::clone(&serve);
            std::thread::spawn(move || drop(serve(stream)));
        }
    });
    address
}

/// A server as [`serve_each`] that answers each request with what `respond` returns for its head and its body.
pub(crate) fn serve_requests<R: AsRef<[u8]>>(respond: impl Fn(&str, &[u8]) -> R + Send + Sync + 'static) -> SocketAddr {
    serve_each(move |stream| answer_requests(stream, &respond))
}

/// The same for one connection. A request has a body if it has a Content-Length.
pub(crate) fn answer_requests<R: AsRef<[u8]>>(
    stream: impl Read + Write,
    respond: impl Fn(&str, &[u8]) -> R,
) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    while let Some(head) = read_head(&mut stream)? {
        let length =
            head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        stream.read_exact(&mut body)?;
        stream.get_mut().write_all(respond(&head, &body).as_ref())?;
    }
    Ok(())
}

/// The head of the next message, with the empty line; none if there is no further complete one.
pub(crate) fn read_head(input: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if input.read_line(&mut head)? == 0 {
            return Ok(None);
        }
    }
    Ok(Some(head))
}

/// A running `breme site` or `breme proxy`, stopped on drop.
pub(crate) struct Site {
    child: Child,
    output: BufReader<ChildStdout>,
    pub(crate) address: SocketAddr,
    /// With `--admin`.
    pub(crate) admin: Option<SocketAddr>,
    scheme: &'static str,
}

impl Site {
    /// Starts `breme site` with these arguments on a free port.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::start_with_stderr(arguments, Stdio::inherit())
    }

    /// The same, with its standard error if required.
    pub(crate) fn start_with_stderr(arguments: &[&str], stderr: Stdio) -> Self {
        Self::start_role("site", arguments, stderr)
    }

    /// `breme proxy` on a driver, for an upstream.
    pub(crate) fn proxy(upstream: SocketAddr, driver: &str, more: &[&str]) -> Self {
        let upstream = format!("--upstream=http://{upstream}");
        let threads = if driver == "threads" { "64" } else { "2" };
        let arguments = [&[&upstream, "--driver", driver, "--threads", threads], more].concat();
        Self::start_role("proxy", &arguments, Stdio::inherit())
    }

    pub(crate) fn start_role(role: &str, arguments: &[&str], stderr: Stdio) -> Self {
        let mut command = breme();
        command.arg(role).args(["--listen", "127.0.0.1:0"]).args(arguments);
        Self::from_command(command, stderr)
    }

    /// A server started by a command that execs it.
    pub(crate) fn from_command(mut command: Command, stderr: Stdio) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(stderr).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = read_line(&mut output);
        let mut admin = None;
        if let Some(place) = line.strip_prefix("admin on ") {
            // None: on a Unix socket.
            admin = place.strip_prefix("http://").map(|address| address.parse().unwrap());
            line = read_line(&mut output);
        }
        let url = line.strip_prefix("listening on ").unwrap_or_else(|| panic!("said {line:?}"));
        let scheme = if url.starts_with("https://") { "https" } else { "http" };
        let address = url.split_once("://").unwrap().1.parse().unwrap();
        Self { address, admin, scheme, child, output }
    }

    /// The laboratory site, on a driver.
    pub(crate) fn lab(driver: &str) -> Self {
        Self::start(&["--lab", "--driver", driver, "--threads", if driver == "threads" { "16" } else { "2" }])
    }

    /// The same at an address that stays reserved when this one has exited. Its listener closes with its process: with
    /// io_uring, the kernel closes it some time later.
    pub(crate) fn lab_at(address: SocketAddr) -> Self {
        Self::start(&["--lab", "--driver", "events", "--threads", "2", "--listen", &address.to_string()])
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}://{}{path}", self.scheme, self.address)
    }

    pub(crate) fn connect(&self) -> TcpStream {
        connect(self.address)
    }

    /// Sends bytes on a new connection and returns all that is received until the server closes it.
    pub(crate) fn exchange(&self, bytes: &[u8]) -> Vec<u8> {
        exchange(self.address, bytes)
    }

    /// Status and content of one GET.
    pub(crate) fn get(&self, path: &str) -> (u16, Vec<u8>) {
        let answer = get(self.address, path);
        (answer.status, answer.content)
    }

    /// The number of responses according to the server.
    pub(crate) fn counter(&self) -> u64 {
        let (status, content) = self.get("/counter");
        assert_eq!(status, 200);
        String::from_utf8(content).unwrap().trim().parse().unwrap()
    }

    /// The next line of its output.
    pub(crate) fn next_line(&mut self) -> String {
        read_line(&mut self.output)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        send_signal(&self.child, signal);
    }

    pub(crate) fn freeze(&self) {
        freeze(Pid::from_child(&self.child));
    }

    /// Its standard error, if piped.
    pub(crate) fn stderr(&mut self) -> BufReader<ChildStderr> {
        BufReader::new(self.child.stderr.take().unwrap())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its exit; also returns the rest of its output.
    pub(crate) fn wait(&mut self) -> (ExitStatus, String) {
        let status = wait(&mut self.child);
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        (status, rest)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_line(output: &mut impl BufRead) -> String {
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

fn exchange(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = connect(address);
    stream.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    answer
}

/// One GET on a new connection.
pub(crate) fn get(address: SocketAddr, path: &str) -> Answer {
    let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
    let mut answers = read_answers(&exchange(address, request.as_bytes()), |_| false).unwrap();
    assert_eq!(answers.len(), 1, "one answer to GET {path}");
    answers.remove(0)
}

/// A default nginx that responds to `/fixed` with 13 bytes, stopped on drop.
pub(crate) struct Nginx {
    child: Child,
    pub(crate) address: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Nginx {
    pub(crate) fn start() -> Self {
        Self::start_with("", "")
    }

    /// With further parameters of `listen`, and directives of `server`.
    pub(crate) fn start_with(listen: &str, server: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let address = reserved_address();
        let root = folder.path().display();
        let configuration = format!(
            "daemon off; master_process off; pid {root}/pid; error_log {root}/error.log crit;\n\
             events {{ worker_connections 1000; }}\n\
             http {{ access_log off; keepalive_requests 1000000000; client_body_temp_path {root}/a; proxy_temp_path {root}/b;\n\
             fastcgi_temp_path {root}/c; uwsgi_temp_path {root}/d; scgi_temp_path {root}/e;\n\
             server {{ listen {address} {listen}; {server} location = /fixed {{ return 200 \"Hello, world!\"; }} }} }}\n"
        );
        let path = folder.path().join("nginx.conf");
        fs::write(&path, configuration).unwrap();
        let child = Command::new("nginx").arg("-c").arg(&path).arg("-p").arg(folder.path()).spawn().unwrap();
        wait_accepting("nginx", address);
        Self { child, address, _folder: folder }
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The binary under test.
pub(crate) fn breme() -> Command {
    Command::new(env!("CARGO_BIN_EXE_breme"))
}

/// Runs `breme load` with these arguments.
pub(crate) fn load(arguments: &[&str]) -> Output {
    breme().arg("load").args(arguments).output().unwrap()
}

/// The same with `--json`, parsed.
pub(crate) fn load_json(arguments: &[&str]) -> serde_json::Value {
    let output = breme().args(["load", "--json"]).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Runs a peer's program and returns what it printed.
pub(crate) fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Replaces a file by one whose reading blocks.
pub(crate) fn replace_by_pipe(path: &Path) {
    fs::remove_file(path).unwrap();
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

/// Directly: a program for that would have to be started first.
pub(crate) fn send_signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Stops a process, and waits until each of its threads is stopped: the signal reaches them one after another.
pub(crate) fn freeze(process: Pid) {
    kill_process(process, Signal::STOP).unwrap();
    let threads = format!("/proc/{}/task", process.as_raw_nonzero());
    let is_stopped = |thread: &Path| {
        let stat = fs::read_to_string(thread.join("stat")).unwrap_or_default();
        // The name before the state may contain anything.
        stat.is_empty() || stat.rsplit_once(')').is_some_and(|(_, rest)| rest.starts_with(" T"))
    };
    wait_until("the process is not stopped", || {
        fs::read_dir(&threads).unwrap().all(|thread| is_stopped(&thread.unwrap().path()))
    });
}

pub(crate) fn wait(child: &mut Child) -> ExitStatus {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        assert!(begun.elapsed() < PATIENCE, "the program does not end");
        std::thread::sleep(POLL_PAUSE);
    }
}

/// Runs it with a short time-out, which saves time, and on failure with longer ones: on a busy machine the first may be
/// too short, the last never. A failure with all of them is a failure.
pub(crate) fn with_longer_and_longer(place: &str, once: impl Fn(&str) -> Result<(), String>) {
    let mut failures = Vec::new();
    for time in ["300ms", "3s", "30s"] {
        match once(time) {
            Ok(()) => return,
            Err(why) => failures.push(format!("with {time}: {why}")),
        }
    }
    panic!("{place}: {failures:#?}");
}

/// Whether it was a time-out, which may happen on a busy machine: then the case is repeated with more time.
pub(crate) fn is_of_a_time_out(why: &str) -> bool {
    ["408", "504"].iter().any(|status| why.contains(status))
}

/// Polls until it is true.
pub(crate) fn wait_until(otherwise: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{otherwise}");
        std::thread::sleep(POLL_PAUSE);
    }
}

pub(crate) fn wait_accepting(name: &str, address: SocketAddr) {
    wait_until(&format!("{name} does not accept on {address}"), || TcpStream::connect(address).is_ok());
}

/// A folder with pages.
pub(crate) fn pages(files: &[(&str, &[u8])]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("pages");
    for (name, content) in files {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).unwrap();
        fs::write(path, content).unwrap();
    }
    (folder, root)
}
