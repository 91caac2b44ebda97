//! `cargo xtask dist`: builds what users install, in `target/packages`.

mod licenses;
mod sbom;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::steps::{StepResult, cargo, output, root, step, target};

/// Compiles and links C for other systems; from the package registry of Python.
const ZIG: &str = "ziglang==0.17.1";
const ZIGBUILD: (&str, &str) = ("cargo-zigbuild", "0.24.1");
const SBOM: (&str, &str) = ("cargo-cyclonedx", "0.5.9");

/// Limit of a binary. It has 23.6 MB on x86_64: 17 MB of code, 3 MB of constants, and 2.8 MB of tables for unwinding,
/// without which a panic would end the server. The smallest one that was built (levels 3 and "s" for the hottest crates
/// only) had 22.4 MB.
const BINARY_BYTES_MAX: u64 = 25_000_000;

struct Architecture {
    name: &'static str,
    target: &'static str,
    debian: &'static str,
}

const ARCHITECTURES: [Architecture; 2] = [
    Architecture { name: "x86_64", target: "x86_64-unknown-linux-musl", debian: "amd64" },
    Architecture { name: "aarch64", target: "aarch64-unknown-linux-musl", debian: "arm64" },
];

/// Builds everything for all architectures, or for the named ones.
pub(crate) fn build(names: &[String]) -> StepResult {
    let chosen = choose(names)?;
    let tools = Tools::install()?;
    let folder = target().join("packages");
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let version = version()?;
    let pages = ManualPages::write(&folder.join("pages"))?;
    let licenses = folder.join("licenses");
    licenses::collect(&licenses, &tools.zig())?;
    for architecture in chosen {
        let binary = tools.compile(architecture)?;
        check_binary(&binary)?;
        let content = Content { binary: &binary, pages: &pages.0, licenses: &licenses };
        let tree = folder.join(format!("breme-{version}-{}-linux", architecture.name));
        fill(&tree, &content)?;
        pack(&folder, &tree)?;
        debian_package(&folder, architecture, &version, &content)?;
        copy(&binary, &folder.join(format!("breme-{}", architecture.name)))?;
        fs::remove_dir_all(&tree).map_err(|error| format!("{}: {error}", tree.display()))?;
    }
    for shared in [&pages.0, &licenses] {
        fs::remove_dir_all(shared).map_err(|error| format!("{}: {error}", shared.display()))?;
    }
    copy(&root().join("packaging/Containerfile"), &folder.join("Containerfile"))?;
    tools.list_crates(&folder.join(format!("breme-{version}.cdx.json")))?;
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

    /// The binary of one architecture.
    fn compile(&self, architecture: &Architecture) -> Result<PathBuf, String> {
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
        build.current_dir(root()).env("CARGO_ZIGBUILD_ZIG_PATH", self.zig().join("zig"));
        step(architecture.target, build)?;
        Ok(target().join(architecture.target).join("dist/breme"))
    }

    fn list_crates(&self, file: &Path) -> StepResult {
        let mut list = Command::new(self.program("cargo-cyclonedx"));
        list.args(["cyclonedx", "--format", "json", "--manifest-path", "crates/breme/Cargo.toml"]);
        list.args(["--override-filename", "sbom"]).current_dir(root());
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

/// Completions and manual pages, written by a binary for this machine.
struct ManualPages(PathBuf);

impl ManualPages {
    fn write(folder: &Path) -> Result<Self, String> {
        let man = folder.join("man");
        fs::create_dir_all(&man).map_err(|error| format!("{}: {error}", man.display()))?;
        step("build", cargo(&["build", "--package", "breme"]))?;
        let program = target().join("debug/breme");
        let mut pages = Command::new(&program);
        pages.arg("man").arg(&man);
        step("manual pages", pages)?;
        for shell in ["bash", "zsh", "fish"] {
            let mut completions = Command::new(&program);
            completions.args(["completions", shell]);
            let file = folder.join(format!("breme.{shell}"));
            write(&file, &output("breme completions", completions)?)?;
        }
        Ok(Self(folder.to_path_buf()))
    }
}

/// The binary must run on its own: it must not name an interpreter, as dynamically linked programs do.
fn check_binary(binary: &Path) -> StepResult {
    let bytes = fs::read(binary).map_err(|error| format!("{}: {error}", binary.display()))?;
    let size = bytes.len() as u64;
    if size > BINARY_BYTES_MAX {
        return Err(format!("{} has {size} bytes; at most {BINARY_BYTES_MAX} are allowed", binary.display()));
    }
    if bytes.windows(7).any(|window| window == b"/ld-mus" || window == b"/ld-lin") {
        return Err(format!("{} is not static: it names a dynamic linker", binary.display()));
    }
    eprintln!("   {size} bytes");
    Ok(())
}

/// What each package of an architecture contains: the binary, and the folders of pages and licenses.
struct Content<'a> {
    binary: &'a Path,
    pages: &'a Path,
    licenses: &'a Path,
}

/// Fills the tree of the archive: `breme`, and the files that accompany it.
fn fill(tree: &Path, content: &Content<'_>) -> StepResult {
    copy(content.binary, &tree.join("breme"))?;
    for name in ["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"] {
        copy(&root().join(name), &tree.join(name))?;
    }
    copy(&root().join("packaging/breme-proxy.service"), &tree.join("breme-proxy.service"))?;
    copy_folder(content.licenses, &tree.join("licenses"))?;
    copy_folder(content.pages, &tree.join("share"))
}

fn pack(folder: &Path, tree: &Path) -> StepResult {
    let name = tree.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut tar = Command::new("tar");
    tar.args(["--create", "--gzip", "--owner=0", "--group=0", "--numeric-owner", "--sort=name", "--file"]);
    tar.arg(folder.join(format!("{name}.tar.gz"))).arg("--directory").arg(folder).arg(&name);
    step(&format!("{name}.tar.gz"), tar)
}

fn debian_package(folder: &Path, architecture: &Architecture, version: &str, content: &Content<'_>) -> StepResult {
    let name = format!("breme_{version}_{}", architecture.debian);
    let tree = folder.join(&name);
    let man = tree.join("usr/share/man/man1");
    copy(content.binary, &tree.join("usr/bin/breme"))?;
    copy_folder(&content.pages.join("man"), &man)?;
    compress(&man)?;
    for (from, to) in [
        ("breme.bash", "usr/share/bash-completion/completions/breme"),
        ("breme.zsh", "usr/share/zsh/vendor-completions/_breme"),
        ("breme.fish", "usr/share/fish/vendor_completions.d/breme.fish"),
    ] {
        copy(&content.pages.join(from), &tree.join(to))?;
    }
    copy(&root().join("packaging/breme-proxy.service"), &tree.join("usr/lib/systemd/system/breme-proxy.service"))?;
    copy(&root().join("packaging/copyright"), &tree.join("usr/share/doc/breme/copyright"))?;
    copy_folder(content.licenses, &tree.join("usr/share/doc/breme/licenses"))?;
    let control = fs::read_to_string(root().join("packaging/control"))
        .map_err(|error| format!("packaging/control: {error}"))?
        .replace("{version}", version)
        .replace("{architecture}", architecture.debian);
    write(&tree.join("DEBIAN/control"), control.as_bytes())?;
    open_folders(&tree)?;
    let mut dpkg = Command::new("dpkg-deb");
    dpkg.args(["--root-owner-group", "--build"]).arg(&tree).arg(folder.join(format!("{name}.deb")));
    step(&format!("{name}.deb"), dpkg)?;
    fs::remove_dir_all(&tree).map_err(|error| format!("{}: {error}", tree.display()))
}

/// Gives all folders the permissions of installed ones, which dpkg-deb requires, whatever the umask.
fn open_folders(folder: &Path) -> StepResult {
    let failed = |error| format!("{}: {error}", folder.display());
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).map_err(failed)?;
    let entries = fs::read_dir(folder).map_err(failed)?;
    entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).try_for_each(|path| open_folders(&path))
}

/// Debian's manual pages are compressed; without a timestamp, so that the same pages result in the same package.
fn compress(folder: &Path) -> StepResult {
    let mut gzip = Command::new("gzip");
    gzip.args(["-9", "--no-name", "--recursive"]).arg(folder);
    step("compressed manual pages", gzip)
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
    fn folders_of_a_package_are_open_whatever_the_umask() {
        let root = std::env::temp_dir().join(format!("breme-xtask-{}", std::process::id()));
        let (usr, inner) = (root.join("usr"), root.join("usr/bin"));
        fs::create_dir_all(&inner).unwrap();
        let folders = [root.as_path(), &usr, &inner];
        let mode = |folder: &Path| fs::metadata(folder).unwrap().permissions().mode() & 0o777;
        for folder in folders {
            fs::set_permissions(folder, fs::Permissions::from_mode(0o750)).unwrap();
        }
        open_folders(&root).unwrap();
        assert_eq!(folders.map(mode), [0o755; 3]);
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn the_workspace_has_a_version() {
        assert!(version().is_ok_and(|version| version.split('.').count() == 3));
    }
}
