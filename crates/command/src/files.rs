//! Files named by flags.

use std::path::Path;

/// The path in a flag, unless an experiment fills it in later: `${folder}/cert.pem`.
pub fn known(path: Option<&Path>) -> Option<&Path> {
    path.filter(|path| !path.to_string_lossy().contains("${"))
}
