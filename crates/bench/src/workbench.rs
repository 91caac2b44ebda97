//! What every trial stands on: two processors, the program under test and what it can do, pages, a certificate.

use std::cell::OnceCell;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::generators::VARIED_URLS;
use crate::processes::Processes;

/// See the module.
pub(crate) struct Workbench {
    pub(crate) processes: Processes,
    pub(crate) cpus: Cpus,
    /// `--driver` for our server and our generator; none leaves the choice to them.
    pub(crate) driver: Option<String>,
    breme: PathBuf,
    site_help: String,
    load_help: String,
    proxy_help: String,
    certificate: OnceCell<Result<Certificate, String>>,
    /// Readable for all, since Apache's workers give up the rights of root; removed at the end.
    folder: tempfile::TempDir,
}

/// Where the server runs, and where the generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cpus {
    pub(crate) server: usize,
    pub(crate) generator: usize,
    /// They are two threads of one core: no other two were to be had.
    pub(crate) share_a_core: bool,
}

/// A key with its own signature on it: ECDSA on P-256, the kind that most sites have.
#[derive(Clone, Debug)]
pub(crate) struct Certificate {
    pub(crate) chain: PathBuf,
    pub(crate) key: PathBuf,
}

impl Workbench {
    pub(crate) fn new(driver: Option<String>) -> Result<Self, String> {
        // Started processes inherit the limit: ten thousand connections need it on both sides.
        breme_sys::raise_descriptor_limit();
        let folder = tempfile::tempdir().map_err(|error| format!("cannot create a temporary folder: {error}"))?;
        write_pages(folder.path()).map_err(|error| format!("{}: {error}", folder.path().display()))?;
        let breme = beside_this_program("breme")?;
        Ok(Self {
            processes: Processes::end_on_signals()?,
            cpus: Cpus::choose()?,
            driver,
            site_help: printed_by(Command::new(&breme).args(["site", "--help"]))?,
            load_help: printed_by(Command::new(&breme).args(["load", "--help"]))?,
            proxy_help: printed_by(Command::new(&breme).args(["proxy", "--help"]))?,
            breme,
            certificate: OnceCell::new(),
            folder,
        })
    }

    /// The folder with the files that every server serves.
    pub(crate) fn pages(&self) -> PathBuf {
        self.folder.path().join("pages")
    }

    /// The script with which wrk sends varied requests.
    pub(crate) fn varied_script(&self) -> PathBuf {
        self.folder.path().join(VARIED_SCRIPT)
    }

    /// A new folder for one server, which ends with the server.
    pub(crate) fn new_folder(&self) -> Result<tempfile::TempDir, String> {
        let mut builder = tempfile::Builder::new();
        let folder = builder.permissions(for_all()).tempdir_in(self.folder.path());
        folder.map_err(|error| format!("{}: {error}", self.folder.path().display()))
    }

    pub(crate) fn certificate(&self) -> Result<&Certificate, String> {
        self.certificate.get_or_init(|| make_certificate(self.folder.path())).as_ref().map_err(Clone::clone)
    }

    /// One of breme's servers, with the driver that was asked for; `connections` are needed at a time.
    pub(crate) fn breme(&self, server: &str, connections: usize) -> Command {
        let mut command = Command::new(&self.breme);
        command.arg(server);
        if let Some(driver) = &self.driver {
            command.args(["--driver", driver]);
        }
        // One thread serves any number of connections, or each one.
        let threads = if self.driver.as_deref() == Some("threads") { connections + 28 } else { 1 };
        command.args(["--threads", &threads.to_string()]);
        command
    }

    /// `breme load`, with the driver that was asked for if it has a choice.
    pub(crate) fn breme_load(&self) -> Command {
        let mut command = Command::new(&self.breme);
        command.arg("load");
        if let Some(driver) = self.driver.as_ref().filter(|_| self.load_help.contains("--driver ")) {
            command.args(["--driver", driver]);
        }
        command
    }

    /// Whether the server speaks TLS in this build.
    pub(crate) fn site_has_tls(&self) -> bool {
        self.site_help.contains("--tls-cert ")
    }

    /// Whether there is a proxy in this build.
    pub(crate) fn has_proxy(&self) -> bool {
        self.proxy_help.contains("--upstream ")
    }

    /// Whether the generator has an open loop in this build.
    pub(crate) fn load_has_rate(&self) -> bool {
        self.load_help.contains("--rate ")
    }

    pub(crate) fn breme_version(&self) -> Result<String, String> {
        Ok(printed_by(Command::new(&self.breme).arg("--version"))?.trim().to_owned())
    }

    /// The driver in words.
    pub(crate) fn driver_in_words(&self) -> String {
        match (&self.driver, default_of(&self.site_help, "--driver ")) {
            (Some(driver), _) => format!("`--driver {driver}`"),
            (None, Some(default)) => format!("its default driver, `{default}`"),
            (None, None) => String::from("its default driver"),
        }
    }
}

impl Cpus {
    /// Two of the processors that we may use, of different cores if there are such.
    fn choose() -> Result<Self, String> {
        let allowed = breme_sys::cpus_allowed();
        let [server, others @ ..] = allowed.as_slice() else { return Err(String::from("no processor is available")) };
        let other = others.iter().find(|&&cpu| !are_siblings(*server, cpu)).or(others.first());
        let &generator = other.ok_or(
            "only one processor is available; server and generator need one each (see `taskset -p $$`, or the cpuset)",
        )?;
        Ok(Self { server: *server, generator, share_a_core: are_siblings(*server, generator) })
    }
}

/// Whether two processors are threads of one core.
fn are_siblings(one: usize, other: usize) -> bool {
    let core = |cpu: usize| {
        let folder = format!("/sys/devices/system/cpu/cpu{cpu}/topology");
        fs::read_to_string(format!("{folder}/thread_siblings_list")).ok()
    };
    core(one).is_some_and(|core_of_one| core(other) == Some(core_of_one))
}

/// Where a program is; the folders of the administrator's programs are searched even if they are not in PATH.
pub(crate) fn find_program(name: &str) -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
    let found = std::env::split_paths(&path).chain(usual).map(|folder| folder.join(name)).find(|path| path.is_file());
    found.ok_or_else(|| format!("{name} is not installed"))
}

/// A program that was built with this one.
fn beside_this_program(name: &str) -> Result<PathBuf, String> {
    let here = std::env::current_exe().map_err(|error| format!("cannot find the path of this program: {error}"))?;
    let path = here.with_file_name(name);
    if path.exists() { Ok(path) } else { Err(format!("{} is not built; use `cargo xtask`", path.display())) }
}

/// What a program prints on both outputs; how it ends does not matter (`wrk -v` ends with 1).
pub(crate) fn printed_by(command: &mut Command) -> Result<String, String> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    Ok(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

/// The default of a flag in the text of `--help`.
fn default_of<'a>(help: &'a str, flag: &str) -> Option<&'a str> {
    let behind = help.split_once(flag)?.1;
    let of_flag = behind.split_once("\n      --").map_or(behind, |(before, _)| before);
    Some(of_flag.split_once("[default: ")?.1.split_once(']')?.0)
}

const VARIED_SCRIPT: &str = "varied.lua";

/// Files of the sizes that are asked for, and the script. nginx and `breme site` answer /bytes/13 without a file.
fn write_pages(folder: &Path) -> std::io::Result<()> {
    fs::set_permissions(folder, for_all())?;
    let pages = folder.join("pages");
    fs::create_dir_all(pages.join("bytes"))?;
    fs::write(pages.join("bytes/13"), "a".repeat(13))?;
    fs::write(pages.join("1k.html"), "a".repeat(1_000))?;
    fs::write(pages.join("10k.html"), "a".repeat(10_000))?;
    fs::create_dir(pages.join("many"))?;
    for number in 1..=VARIED_URLS {
        fs::write(pages.join(format!("many/{number}.html")), "a".repeat(1_000))?;
    }
    fs::write(folder.join(VARIED_SCRIPT), include_str!("generators/varied.lua"))
}

fn for_all() -> fs::Permissions {
    fs::Permissions::from_mode(0o755)
}

fn make_certificate(folder: &Path) -> Result<Certificate, String> {
    let certificate = Certificate { chain: folder.join("certificate.pem"), key: folder.join("key.pem") };
    let mut command = Command::new(find_program("openssl")?);
    command.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30"]);
    command.args(["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]);
    command.arg("-keyout").arg(&certificate.key).arg("-out").arg(&certificate.chain);
    let printed = printed_by(&mut command)?;
    if certificate.chain.exists() { Ok(certificate) } else { Err(format!("openssl made no certificate:\n{printed}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_is_read_from_the_help() {
        let help = "      --listen <ADDR>\n      --driver <DRIVER>\n          Architecture: events or \
                    threads [default: events]\n      --threads <N>  [default: 3]\n";
        assert_eq!(default_of(help, "--driver "), Some("events"));
        assert_eq!(default_of(help, "--listen "), None);
        assert_eq!(default_of(help, "--cpus "), None);
    }

    #[test]
    fn programs_are_found_or_told_to_lack() {
        assert!(find_program("sh").unwrap().is_absolute());
        assert!(find_program("no-such-program").unwrap_err().contains("no-such-program"));
    }
}
