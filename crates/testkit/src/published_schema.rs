//! Checks that the published schemas in `schemas/` match the code.

use std::path::Path;

/// Environment variable: rewrite the files.
const RENEW: &str = "BREME_RENEW";

/// Compares a published schema with the code; `package` and `test` are named in the message as the remedy.
///
/// # Panics
/// If they differ.
pub fn check_published(name: &str, schema: &str, package: &str, test: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas").join(name);
    let schema = format!("{schema}\n");
    if std::env::var_os(RENEW).is_some() {
        std::fs::write(&path, &schema).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
    let published = std::fs::read_to_string(&path).unwrap_or_default();
    let remedy = format!("{RENEW}=1 cargo test -p {package} {test}");
    assert!(published == schema, "schemas/{name} is stale; renew it with: {remedy}");
}
