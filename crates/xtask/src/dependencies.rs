//! The allowed dependencies between crates, compared with those of `cargo metadata`.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::steps::{StepResult, cargo, output};

/// For each crate, the crates of this project that it may depend on.
const ALLOWED: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("node", &["base"]),
    // pure cores: no node, no driver
    ("http", &[]),
    ("http1", &["http"]),
    ("server", &["base", "node", "http", "http1"]),
    ("stats", &["base"]),
    ("load-result", &["stats"]),
    ("load-plan", &["base", "http", "http1", "toml"]),
    ("cache", &["base", "http"]),
    ("balance", &["base", "http"]),
    ("toml", &["base"]),
    ("session", &["base"]),
    ("import", &["base", "http"]),
    ("expression", &["base"]),
    ("experiment", &["base", "expression", "load-plan", "load-result", "stats", "toml"]),
    ("judge", &["base", "experiment", "expression", "stats"]),
    ("watch", &["base", "stats", "toml"]),
    ("report", &["base", "experiment", "expression", "judge", "load-result", "stats", "watch"]),
    // roles: never a driver, never the operating system
    ("origin", &["base", "node", "http", "http1", "server"]),
    ("load", &["base", "node", "http", "http1", "load-plan", "load-result", "stats"]),
    ("proxy", &["base", "node", "http", "http1", "server", "cache", "balance"]),
    ("link", &["base", "node"]),
    // applications: ordinary axum services
    ("axum-server", &["sys"]),
    ("wiki-database", &[]),
    ("wiki", &["axum-server", "base", "http", "wiki-database"]),
    ("cluster", &["base", "http", "session", "sys"]),
    // world: never HTTP, except for the client
    ("sys", &["base"]),
    ("driver", &["base", "node", "sys"]),
    ("http-client", &["base"]),
    ("subject", &["base", "experiment", "http-client", "sys"]),
    ("runner", &["experiment", "expression", "judge", "load-result", "stats", "subject", "sys"]),
    ("sim", &["base", "node"]),
    // commands and what they have in common
    ("admin", &["base", "node", "http", "http1", "server", "sys", "driver", "http-client"]),
    ("command", &["admin", "base", "node", "http", "toml", "sys", "driver", "axum-server"]),
    ("site-command", &["admin", "command", "base", "http", "origin", "sys", "driver"]),
    ("link-command", &["admin", "command", "base", "node", "link", "driver"]),
    ("generator", &["load", "load-result", "sys", "driver"]),
    (
        "load-command",
        &[
            "admin",
            "command",
            "base",
            "node",
            "http",
            "stats",
            "generator",
            "load",
            "load-plan",
            "load-result",
            "sys",
            "driver",
            "experiment",
            "expression",
            "judge",
            "http-client",
            "report",
        ],
    ),
    ("proxy-command", &["admin", "command", "base", "node", "http", "proxy", "cache", "balance", "sys", "driver"]),
    (
        "watch-command",
        &[
            "admin",
            "command",
            "base",
            "node",
            "http",
            "stats",
            "load-command",
            "load-result",
            "sys",
            "driver",
            "report",
            "subject",
            "watch",
        ],
    ),
    // where roles meet drivers
    (
        "breme",
        &[
            "admin",
            "axum-server",
            "base",
            "command",
            "import",
            "site-command",
            "link-command",
            "load-command",
            "proxy-command",
            "sys",
            "driver",
            "experiment",
            "expression",
            "judge",
            "report",
            "runner",
            "session",
            "subject",
            "cluster",
            "watch-command",
            "wiki",
            "wiki-database",
        ],
    ),
    // workshop
    ("testkit", &["base", "node"]),
    ("conformance", &[]),
    ("xtask", &[]),
];

/// Additional crates that the tests of a crate may depend on.
const ALLOWED_IN_TESTS: &[(&str, &[&str])] = &[
    ("http1", &["base"]),
    ("cache", &["http1"]),
    ("load-plan", &["testkit"]),
    ("load-result", &["testkit"]),
    ("experiment", &["testkit"]),
    ("judge", &["testkit"]),
    ("report", &["testkit"]),
    ("watch", &["testkit"]),
    ("sys", &["testkit"]),
    ("driver", &["testkit"]),
    ("subject", &["testkit"]),
    ("runner", &["testkit"]),
    ("sim", &["testkit"]),
    ("session", &["sim"]),
    ("cluster", &["testkit"]),
    ("origin", &["sim", "testkit", "sys"]),
    ("load", &["sim", "testkit", "origin"]),
    ("proxy", &["sim", "testkit", "origin", "load", "load-plan", "driver"]),
    ("link", &["sim", "testkit"]),
    ("generator", &["load-plan"]),
    ("breme", &["conformance", "testkit", "sim", "http", "load", "load-plan", "origin", "stats"]),
];

const PREFIX: &str = "breme-";

pub(crate) fn check() -> StepResult {
    eprintln!("── dependencies between crates");
    let metadata = output("cargo metadata", cargo(&["metadata", "--no-deps", "--format-version", "1"]))?;
    let metadata: Value =
        serde_json::from_slice(&metadata).map_err(|error| format!("cargo metadata printed invalid JSON: {error}"))?;
    let forbidden = forbidden_dependencies(&metadata);
    if forbidden.is_empty() {
        Ok(())
    } else {
        Err(format!("dependencies that the architecture does not allow:\n  {}", forbidden.join("\n  ")))
    }
}

fn forbidden_dependencies(metadata: &Value) -> Vec<String> {
    let allowed: BTreeMap<_, _> = ALLOWED.iter().copied().collect();
    let in_tests: BTreeMap<_, _> = ALLOWED_IN_TESTS.iter().copied().collect();
    let mut forbidden = Vec::new();
    for package in array(&metadata["packages"]) {
        let name = short(&package["name"]);
        let Some(may) = allowed.get(name) else {
            forbidden.push(format!("crate {name} is not in the table of crates/xtask/src/dependencies.rs"));
            continue;
        };
        for dependency in array(&package["dependencies"]) {
            let Some(target) = dependency["name"].as_str().and_then(|name| name.strip_prefix(PREFIX)) else { continue };
            let is_test = dependency["kind"].as_str() == Some("dev");
            let may_in_test = is_test && in_tests.get(name).is_some_and(|list| list.contains(&target));
            if !may.contains(&target) && !may_in_test {
                forbidden.push(format!("{name} → {target}{}", if is_test { " (tests)" } else { "" }));
            }
        }
    }
    forbidden
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn short(name: &Value) -> &str {
    let name = name.as_str().unwrap_or_default();
    name.strip_prefix(PREFIX).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn workspace(name: &str, dependency: &str, kind: &Value) -> Value {
        json!({"packages": [{"name": name, "dependencies": [{"name": dependency, "kind": kind}]}]})
    }

    #[test]
    fn a_driver_that_depends_on_http_is_found() {
        let forbidden = forbidden_dependencies(&workspace("breme-driver", "breme-http1", &Value::Null));
        assert_eq!(forbidden, ["driver → http1"]);
    }

    #[test]
    fn tests_may_depend_on_more_than_the_crate() {
        assert!(forbidden_dependencies(&workspace("breme-driver", "breme-testkit", &json!("dev"))).is_empty());
        assert_eq!(
            forbidden_dependencies(&workspace("breme-driver", "breme-testkit", &Value::Null)),
            ["driver → testkit"]
        );
    }

    #[test]
    fn an_unknown_crate_is_found() {
        assert_eq!(forbidden_dependencies(&workspace("breme-else", "serde", &Value::Null)).len(), 1);
    }

    #[test]
    fn this_workspace_has_no_forbidden_dependency() {
        assert_eq!(check(), Ok(()));
    }
}
