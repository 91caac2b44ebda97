//! `cargo xtask dist`: builds what users install, in `target/packages`.

mod licenses;
mod package;
mod sbom;

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use package::Package;

use crate::steps::{StepResult, cargo, output, root, step, target};

/// Compiles C for other systems; from the package registry of Python.
const ZIG: &str = "ziglang==0.17.1";
const ZIGBUILD: (&str, &str) = ("cargo-zigbuild", "0.24.1");
const SBOM: (&str, &str) = ("cargo-cyclonedx", "0.5.9");
/// Rust's own linker and C library: zig's linker makes programs whose addresses are the same in each process. Packed,
/// the relocations of a position-independent program take 15 kB in place of 1 MB.
const LINKING: &str =
    "-Clinker=rust-lld -Clinker-flavor=ld.lld -Clink-self-contained=yes -Clink-arg=-zpack-relative-relocs";

/// A binary with a selection of commands, packed under a name of its own.
struct Edition {
    name: &'static str,
    flags: &'static [&'static str],
    /// Limit of the binary, on each architecture.
    bytes_max: u64,
    /// The one that it replaces when it is installed.
    other: &'static str,
    /// The end of the description in the Debian package.
    contents: &'static str,
}

/// What the larger one consists of: docs/PERFORMANCE.md.
const EDITIONS: [Edition; 2] = [
    Edition {
        name: "breme",
        flags: &[],
        bytes_max: 25_000_000,
        other: "breme-light",
        contents: "It also has an HTTP/1.1 server, a caching and balancing proxy, a wiki, and a\n session cluster.",
    },
    Edition {
        name: "breme-light",
        flags: &["--no-default-features", "--features", "light"],
        bytes_max: 20_000_000,
        other: "breme",
        contents: "It also has an HTTP/1.1 server and a caching and balancing proxy; not, unlike\n the package breme, a wiki and a session cluster.",
    },
];

struct Architecture {
    name: &'static str,
    target: &'static str,
    debian: &'static str,
    /// Whether Rust's target links static programs for any address.
    is_position_independent: bool,
}

const ARCHITECTURES: [Architecture; 2] = [
    Architecture {
        name: "x86_64",
        target: "x86_64-unknown-linux-musl",
        debian: "amd64",
        is_position_independent: true,
    },
    Architecture {
        name: "aarch64",
        target: "aarch64-unknown-linux-musl",
        debian: "arm64",
        is_position_independent: false,
    },
];

/// Builds everything for all architectures, or for the named ones.
pub(crate) fn build(names: &[String]) -> StepResult {
    let architectures = choose(names)?;
    let tools = Tools::install()?;
    let folder = target().join("packages");
    if folder.exists() {
        remove_folder(&folder)?;
    }
    let version = version()?;
    for edition in &EDITIONS {
        let (pages, licenses) = (folder.join("pages"), folder.join("licenses"));
        write_manual_pages(edition, &pages)?;
        licenses::collect(edition, &licenses, &tools.zig())?;
        for architecture in &architectures {
            let binary = tools.compile(edition, architecture)?;
            check_binary(&binary, edition, architecture)?;
            copy(&binary, &folder.join(format!("{}-{}", edition.name, architecture.name)))?;
            let package = Package {
                edition,
                architecture,
                version: &version,
                binary: &binary,
                pages: &pages,
                licenses: &licenses,
            };
            package.write_archive(&folder)?;
            package.write_debian(&folder)?;
        }
        [pages, licenses].iter().try_for_each(|shared| remove_folder(shared))?;
        tools.list_crates(edition, &folder.join(format!("{}-{version}.cdx.json", edition.name)))?;
    }
    copy(&root().join("packaging/Containerfile"), &folder.join("Containerfile"))?;
    sum(&folder)
}

fn choose(names: &[String]) -> Result<Vec<&'static Architecture>, String> {
    if names.is_empty() {
        return Ok(ARCHITECTURES.iter().collect());
    }
    let find = |name: &String| {
        let known = || ARCHITECTURES.map(|architecture| architecture.name).join(", ");
        let found = ARCHITECTURES.iter().find(|architecture| architecture.name == name);
        found.ok_or_else(|| format!("unknown architecture {name:?}; known are {}", known()))
    };
    names.iter().map(find).collect()
}

/// Programs that only `dist` needs, in the target folder.
struct Tools {
    folder: PathBuf,
}

impl Tools {
    fn install() -> Result<Self, String> {
        let tools = Self { folder: target().join("dist-tools") };
        let mut targets = Command::new("rustup");
        targets.args(["target", "add"]).args(ARCHITECTURES.map(|architecture| architecture.target)).current_dir(root());
        step("standard libraries for musl", targets)?;
        if !tools.zig().join("zig").exists() {
            let mut pip = Command::new("python3");
            pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--target"])
                .arg(tools.folder.join("zig"))
                .arg(ZIG);
            step("zig", pip)?;
        }
        for (name, version) in [ZIGBUILD, SBOM] {
            if !tools.program(name).exists() {
                let mut install = cargo(&["install", "--locked", "--version", version, "--root"]);
                install.arg(&tools.folder).arg(name);
                step(name, install)?;
            }
        }
        Ok(tools)
    }

    fn program(&self, name: &str) -> PathBuf {
        self.folder.join("bin").join(name)
    }

    fn zig(&self) -> PathBuf {
        self.folder.join("zig/ziglang")
    }

    fn compile(&self, edition: &Edition, architecture: &Architecture) -> Result<PathBuf, String> {
        let mut build = Command::new(self.program("cargo-zigbuild"));
        build.args([
            "zigbuild",
            "--locked",
            "--profile",
            "dist",
            "--package",
            "breme",
            "--target",
            architecture.target,
        ]);
        build.args(edition.flags).current_dir(root()).env("CARGO_ZIGBUILD_ZIG_PATH", self.zig().join("zig"));
        let variable = format!("CARGO_TARGET_{}_RUSTFLAGS", architecture.target.to_uppercase().replace('-', "_"));
        build.env(variable, format!("{LINKING} --remap-path-prefix={}=cargo", cargo_home()?.display()));
        step(&format!("{} for {}", edition.name, architecture.target), build)?;
        Ok(target().join(architecture.target).join("dist/breme"))
    }

    fn list_crates(&self, edition: &Edition, file: &Path) -> StepResult {
        let mut list = Command::new(self.program("cargo-cyclonedx"));
        list.args(["cyclonedx", "--format", "json", "--manifest-path", "crates/breme/Cargo.toml"]);
        list.args(["--override-filename", "sbom"]).args(edition.flags).current_dir(root());
        step("list of crates", list)?;
        // It writes a list next to each manifest of the workspace, containing the path of this folder.
        let lists = fs::read_dir(root().join("crates")).map_err(|error| format!("crates: {error}"))?;
        let lists: Vec<PathBuf> = lists.flatten().map(|entry| entry.path().join("sbom.json")).collect();
        let own = root().join("crates/breme/sbom.json");
        let text = fs::read_to_string(&own).map_err(|error| format!("{}: {error}", own.display()))?;
        lists.iter().for_each(|list| drop(fs::remove_file(list)));
        let text = sbom::with_charts(&text)?;
        write(file, text.replace(&format!("{}/", root().display()), "").as_bytes())
    }
}

/// Writes completions and manual pages, by a binary for this machine.
fn write_manual_pages(edition: &Edition, folder: &Path) -> StepResult {
    let man = folder.join("man");
    fs::create_dir_all(&man).map_err(|error| format!("{}: {error}", man.display()))?;
    let mut build = cargo(&["build", "--package", "breme"]);
    build.args(edition.flags);
    step("build", build)?;
    let program = target().join("debug/breme");
    let mut pages = Command::new(&program);
    pages.arg("man").arg(&man);
    step("manual pages", pages)?;
    ["bash", "zsh", "fish"].into_iter().try_for_each(|shell| {
        let mut completions = Command::new(&program);
        completions.args(["completions", shell]);
        write(&folder.join(format!("breme.{shell}")), &output("breme completions", completions)?)
    })
}

/// The binary must run on its own, and where possible at any address: it must not name an interpreter, as dynamically
/// linked programs do, and be of the type of shared objects (ELF, `ET_DYN`).
fn check_binary(binary: &Path, edition: &Edition, architecture: &Architecture) -> StepResult {
    let bytes = fs::read(binary).map_err(|error| format!("{}: {error}", binary.display()))?;
    let size = bytes.len() as u64;
    let bytes_max = edition.bytes_max;
    if size > bytes_max {
        return Err(format!("{} has {size} bytes; at most {bytes_max} are allowed", binary.display()));
    }
    if bytes.windows(7).any(|window| window == b"/ld-mus" || window == b"/ld-lin") {
        return Err(format!("{} is not static: it names a dynamic linker", binary.display()));
    }
    if architecture.is_position_independent && bytes.get(16..18) != Some(&[3, 0]) {
        return Err(format!("{} is not position-independent", binary.display()));
    }
    eprintln!("   {size} bytes");
    Ok(())
}

fn sum(folder: &Path) -> StepResult {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut names: Vec<String> =
        entries.flatten().filter_map(|entry| entry.file_name().to_str().map(str::to_owned)).collect();
    names.sort();
    let mut sha256sum = Command::new("sha256sum");
    sha256sum.args(&names).current_dir(folder);
    let sums = output("sha256sum", sha256sum)?;
    write(&folder.join("SHA256SUMS"), &sums)?;
    print!("{}", String::from_utf8_lossy(&sums));
    Ok(())
}

fn version() -> Result<String, String> {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).map_err(|error| format!("Cargo.toml: {error}"))?;
    let line = manifest.lines().find_map(|line| line.strip_prefix("version = \""));
    let version = line.and_then(|rest| rest.strip_suffix('"'));
    version.map(str::to_owned).ok_or_else(|| String::from("Cargo.toml: the workspace has no version"))
}

/// Where the sources of crates are; their paths are part of the messages of panics.
fn cargo_home() -> Result<PathBuf, String> {
    let home = || env::home_dir().map(|home| home.join(".cargo"));
    env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(home)
        .ok_or_else(|| String::from("neither CARGO_HOME nor HOME is set"))
}

/// Copies a file with its permissions, into a folder that may be missing.
fn copy(from: &Path, to: &Path) -> StepResult {
    create_parent(to)?;
    fs::copy(from, to).map(|_| ()).map_err(|error| format!("{} to {}: {error}", from.display(), to.display()))
}

fn write(file: &Path, content: &[u8]) -> StepResult {
    create_parent(file)?;
    fs::write(file, content).map_err(|error| format!("{}: {error}", file.display()))?;
    fs::set_permissions(file, fs::Permissions::from_mode(0o644)).map_err(|error| format!("{}: {error}", file.display()))
}

fn remove_folder(folder: &Path) -> StepResult {
    fs::remove_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))
}

fn create_parent(file: &Path) -> StepResult {
    let parent = file.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(parent).map_err(|error| format!("{}: {error}", parent.display()))
}

fn copy_folder(from: &Path, to: &Path) -> StepResult {
    let entries = fs::read_dir(from).map_err(|error| format!("{}: {error}", from.display()))?;
    for entry in entries.flatten() {
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() { copy_folder(&path, &to)? } else { copy(&path, &to)? }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn architectures_are_named() {
        assert_eq!(choose(&[]).map(|all| all.len()), Ok(2));
        assert_eq!(choose(&[String::from("aarch64")]).map(|all| all[0].debian), Ok("arm64"));
        assert!(choose(&[String::from("sparc")]).is_err_and(|error| error.contains("x86_64")));
    }

    #[test]
    fn unfit_binaries_are_refused() {
        let binary = env::temp_dir().join(format!("breme-xtask-binary-{}", std::process::id()));
        let check = |elf_type: u8, rest: &[u8], architecture: &Architecture| {
            fs::write(&binary, [[0; 16].as_slice(), &[elf_type, 0], rest].concat()).unwrap();
            check_binary(&binary, &Edition { bytes_max: 100, ..EDITIONS[0] }, architecture)
        };
        let [x86, arm] = &ARCHITECTURES;
        assert_eq!(check(3, b"", x86), Ok(()));
        assert_eq!(check(2, b"", arm), Ok(()));
        assert!(check(2, b"", x86).is_err_and(|error| error.contains("not position-independent")));
        assert!(check(3, b"/lib/ld-musl-x86_64.so.1", x86).is_err_and(|error| error.contains("dynamic linker")));
        assert!(check(3, &[0; 83], x86).is_err_and(|error| error.contains("has 101 bytes; at most 100")));
        fs::remove_file(&binary).unwrap();
    }

    #[test]
    fn the_workspace_has_a_version() {
        assert!(version().is_ok_and(|version| version.split('.').count() == 3));
    }
}
