//! Schemas that are published in `schemas/` must be those of the code.

use std::path::Path;

/// Whoever sets this in the environment has the files written anew.
const RENEW: &str = "BREME_RENEW";

/// Holds the published file against what the code says; `package` and `test` are those that renew it.
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
    let remedy = format!("{RENEW}=1 cargo test -p {package} --test {test}");
    assert!(published == schema, "schemas/{name} is stale; renew it with: {remedy}");
}
