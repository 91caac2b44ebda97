//! Reads the file of an experiment and the files that it names, which the pure crate cannot do.

use std::path::Path;

use breme_command::failure::Failure;
use breme_experiment::plan::{EXPERIMENT_BYTES_MAX, Plan, Surroundings};
use breme_sys::read_bounded;

use super::roles;

pub(super) fn read(path: &Path, profile: Option<&str>) -> Result<Plan, Failure> {
    let text = read_file(path).map_err(Failure::usage)?;
    // An empty parent is this folder.
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = folder.canonicalize().map_err(|error| Failure::usage(format!("{}: {error}", folder.display())))?;
    parse(&text, profile, &folder)
        .map_err(|faults| Failure::usage(format!("{} cannot be used:\n\n{faults}", path.display())))
}

/// Reads an experiment from text.
pub(super) fn read_text(text: &str, folder: &Path) -> Result<Plan, Failure> {
    parse(text, None, folder).map_err(|faults| Failure::usage(format!("the experiment is not valid:\n{faults}")))
}

/// Reads the plan of a stored run, which needs no other file.
pub(super) fn read_stored(text: &str, folder: &Path) -> Result<Plan, Failure> {
    parse(text, None, folder)
        .map_err(|faults| Failure::run(format!("the plan of {} cannot be read:\n{faults}", folder.display())))
}

fn parse(text: &str, profile: Option<&str>, folder: &Path) -> Result<Plan, breme_experiment::plan::Diagnostics> {
    let surroundings = Surroundings {
        roles: &roles::roles(),
        folder: &folder.display().to_string(),
        read: &|name| read_file(&folder.join(name)),
        check: &roles::check,
    };
    Plan::read(text, profile, &surroundings)
}

fn read_file(path: &Path) -> Result<String, String> {
    let fault = |problem: String| format!("{}: {problem}", path.display());
    if path.is_dir() {
        return Err(fault("is a folder; give an experiment file".to_owned()));
    }
    let bytes =
        read_bounded(path, EXPERIMENT_BYTES_MAX as u64).map_err(|error| fault(format!("cannot be read: {error}")))?;
    String::from_utf8(bytes).map_err(|error| fault(format!("is not UTF-8: {error}")))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// The size of a device is 0.
    #[test]
    fn files_are_bounded_text() {
        for device in ["/dev/zero", "/dev/urandom"] {
            let problem = read_file(Path::new(device)).unwrap_err();
            assert!(problem.starts_with(device) && problem.contains("more than"), "{problem}");
        }
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"caf\xe9").unwrap();
        assert!(read_file(file.path()).unwrap_err().contains("is not UTF-8"));
        assert!(read_file(Path::new("/")).unwrap_err().contains("is a folder"));
    }
}
