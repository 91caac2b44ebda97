//! A PostgreSQL server for tests, from Debian's package.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use parking_lot::Mutex;

/// A server with a Unix socket in its own folder. Its shell waits for the end of its standard input, which ends with
/// this process in any case; then it removes everything. It has a process group of its own: a signal to that of the
/// tests would end `initdb` and `pg_ctl` half-way, or the shell before it has removed anything.
pub(crate) struct Server {
    folder: String,
    shell: Mutex<Shell>,
}

struct Shell {
    _process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// Access to a server that only accepts TLS.
#[derive(Clone, Debug)]
pub(crate) struct Secured {
    /// In 127.0.0.0/8.
    pub(crate) address: String,
    /// PEM.
    pub(crate) certificate: String,
    /// PEM.
    pub(crate) key: String,
}

const SCRIPT: &str = r#"
    set -eu
    bin=$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -n 1)
    folder=$(mktemp -d "${TMPDIR:-/tmp}/breme-postgres.XXXXXX")
    stop() {
        "$bin/pg_ctl" -D "$folder/data" -m immediate -w stop > /dev/null 2>&1 || true
    }
    trap 'stop; rm -rf "$folder"' EXIT
    trap '' INT TERM HUP
    "$bin/initdb" -D "$folder/data" -U wiki -A trust -E UTF8 --locale=C.UTF-8 > /dev/null
    options="-k $folder -c listen_addresses='$ADDRESS' -c max_connections=300 -c fsync=off -c shared_buffers=64MB"
    if [ -n "$ADDRESS" ]; then
        umask 077
        printf %s "$CERTIFICATE" > "$folder/certificate"
        printf %s "$KEY" > "$folder/key"
        printf 'local all all trust\nhostssl all all 127.0.0.0/8 trust\n' > "$folder/data/pg_hba.conf"
        options="$options -c ssl=on -c ssl_cert_file=$folder/certificate -c ssl_key_file=$folder/key"
    fi
    start() {
        "$bin/pg_ctl" -D "$folder/data" -l "$folder/log" -o "$options" -w -t 300 start > /dev/null
    }
    start
    echo "$folder"
    while read -r command; do
        "$command"
        echo "$command"
    done
"#;

impl Server {
    pub(crate) fn start() -> Self {
        Self::start_at(&Secured { address: String::new(), certificate: String::new(), key: String::new() })
    }

    pub(crate) fn start_at(secured: &Secured) -> Self {
        // The server refuses to run as root; Debian's package brings the user.
        let as_root = std::fs::metadata("/proc/self").is_ok_and(|process| {
            use std::os::unix::fs::MetadataExt;
            process.uid() == 0
        });
        let user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"];
        let words: Vec<&str> = if as_root { user.to_vec() } else { Vec::new() };
        let words = [&words[..], &["sh", "-c", SCRIPT]].concat();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).current_dir("/").stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        command.env("ADDRESS", &secured.address).env("CERTIFICATE", &secured.certificate).env("KEY", &secured.key);
        let mut process = command.spawn().unwrap();
        let (input, output) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let mut shell = Shell { _process: process, input, output: BufReader::new(output) };
        let folder = shell.read_line();
        assert!(!folder.is_empty(), "PostgreSQL does not start; `cargo xtask packages` installs it");
        Self { folder, shell: Mutex::new(shell) }
    }

    /// Over the Unix socket.
    pub(crate) fn url(&self, database: &str) -> String {
        format!("postgres:///{database}?host={}&user=wiki", self.folder)
    }

    /// Ends the server like a crash; its data remain.
    pub(crate) fn crash(&self) {
        self.carry_out("stop");
    }

    pub(crate) fn restart(&self) {
        self.carry_out("start");
    }

    fn carry_out(&self, command: &str) {
        let mut shell = self.shell.lock();
        writeln!(shell.input, "{command}").unwrap();
        assert_eq!(shell.read_line(), command);
    }
}

impl Shell {
    fn read_line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}
