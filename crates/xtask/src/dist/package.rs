//! The archive and the Debian package of a binary.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use super::{Architecture, Edition, copy, copy_folder, remove_folder, write};
use crate::steps::{StepResult, root, step};

/// A binary, and what is packed with it.
pub(super) struct Package<'a> {
    pub(super) edition: &'a Edition,
    pub(super) architecture: &'a Architecture,
    pub(super) version: &'a str,
    pub(super) binary: &'a Path,
    pub(super) pages: &'a Path,
    pub(super) licenses: &'a Path,
}

impl Package<'_> {
    pub(super) fn write_archive(&self, folder: &Path) -> StepResult {
        let name = format!("{}-{}-{}-linux", self.edition.name, self.version, self.architecture.name);
        let tree = folder.join(&name);
        copy(self.binary, &tree.join("breme"))?;
        for name in ["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"] {
            copy(&root().join(name), &tree.join(name))?;
        }
        copy(&root().join("packaging/breme-proxy.service"), &tree.join("breme-proxy.service"))?;
        copy_folder(self.licenses, &tree.join("licenses"))?;
        copy_folder(self.pages, &tree.join("share"))?;
        let mut tar = Command::new("tar");
        tar.args(["--create", "--gzip", "--owner=0", "--group=0", "--numeric-owner", "--sort=name", "--file"]);
        tar.arg(folder.join(format!("{name}.tar.gz"))).arg("--directory").arg(folder).arg(&name);
        step(&format!("{name}.tar.gz"), tar)?;
        remove_folder(&tree)
    }

    pub(super) fn write_debian(&self, folder: &Path) -> StepResult {
        let package = self.edition.name;
        let name = format!("{package}_{}_{}", self.version, self.architecture.debian);
        let tree = folder.join(&name);
        let man = tree.join("usr/share/man/man1");
        copy(self.binary, &tree.join("usr/bin/breme"))?;
        copy_folder(&self.pages.join("man"), &man)?;
        compress(&man)?;
        for (from, to) in [
            ("breme.bash", "usr/share/bash-completion/completions/breme"),
            ("breme.zsh", "usr/share/zsh/vendor-completions/_breme"),
            ("breme.fish", "usr/share/fish/vendor_completions.d/breme.fish"),
        ] {
            copy(&self.pages.join(from), &tree.join(to))?;
        }
        copy(&root().join("packaging/breme-proxy.service"), &tree.join("usr/lib/systemd/system/breme-proxy.service"))?;
        let documents = tree.join("usr/share/doc").join(package);
        copy(&root().join("packaging/copyright"), &documents.join("copyright"))?;
        copy_folder(self.licenses, &documents.join("licenses"))?;
        write(&tree.join("DEBIAN/control"), self.control()?.as_bytes())?;
        open_folders(&tree)?;
        let mut dpkg = Command::new("dpkg-deb");
        dpkg.args(["--root-owner-group", "--build"]).arg(&tree).arg(folder.join(format!("{name}.deb")));
        step(&format!("{name}.deb"), dpkg)?;
        remove_folder(&tree)
    }

    fn control(&self) -> Result<String, String> {
        let template = fs::read_to_string(root().join("packaging/control"));
        let values = [
            ("{package}", self.edition.name),
            ("{version}", self.version),
            ("{architecture}", self.architecture.debian),
            ("{other}", self.edition.other),
            ("{contents}", self.edition.contents),
        ];
        let fill = |text: String, (name, value): (&str, &str)| text.replace(name, value);
        Ok(values.into_iter().fold(template.map_err(|error| format!("packaging/control: {error}"))?, fill))
    }
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

#[cfg(test)]
mod tests {
    use std::env;

    use super::super::{ARCHITECTURES, EDITIONS};
    use super::*;

    #[test]
    fn folders_of_a_package_are_open_whatever_the_umask() {
        let root = env::temp_dir().join(format!("breme-xtask-{}", std::process::id()));
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
    fn packages_replace_each_other() {
        let control = |edition| {
            let none = Path::new("");
            let architecture = &ARCHITECTURES[0];
            Package { edition, architecture, version: "1.2.3", binary: none, pages: none, licenses: none }
                .control()
                .unwrap()
        };
        let [full, light] = [0, 1].map(|index| control(&EDITIONS[index]));
        assert!(full.starts_with("Package: breme\nVersion: 1.2.3\nArchitecture: amd64\n"), "{full}");
        assert!(full.contains("\nConflicts: breme-light\nReplaces: breme-light\n"), "{full}");
        assert!(light.contains("Package: breme-light\n") && light.contains("\nConflicts: breme\n"), "{light}");
        for text in [full, light] {
            assert!(!text.contains('{') && text.lines().all(|line| line.len() <= 80 && !line.is_empty()), "{text}");
        }
    }
}
