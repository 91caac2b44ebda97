//! The context of the tests' plans: the flags of a server, and a folder of files held in memory.

use breme_experiment::plan::{Diagnostics, Flag, Plan, Role, RoleReset, Roles, Surroundings};
use breme_experiment::trial::ResetAction;

pub fn roles() -> Roles {
    let flag = |name: &str, takes_value: bool| Flag { name: name.to_owned(), takes_value, ..Flag::default() };
    let drivers = ["auto", "uring", "events", "threads"].map(str::to_owned).to_vec();
    let site = Role {
        name: "site".to_owned(),
        flags: vec![
            Flag { is_positional: true, is_path: true, takes_value: true, ..flag("directory", true) },
            flag("lab", false),
            flag("listen", true),
            flag("admin", true),
            flag("threads", true),
            flag("cache-bytes", true),
            flag("tls-self-signed", false),
            Flag { values: drivers, ..flag("driver", true) },
        ],
        resets: Vec::new(),
    };
    let empty = RoleReset {
        name: "cache".to_owned(),
        action: ResetAction::Admin { path: "/cache/purge".to_owned(), content: "{}".to_owned() },
        needs: Some("cache-memory".to_owned()),
    };
    let path = |name: &str| Flag { is_path: true, ..flag(name, true) };
    let proxy = Role {
        name: "proxy".to_owned(),
        flags: vec![
            Flag { is_upstream: true, ..flag("upstream", true) },
            flag("cache-memory", true),
            flag("response-timeout", true),
            path("admin-token-file"),
            path("config"),
        ],
        resets: vec![empty],
    };
    let link = Role {
        name: "link".to_owned(),
        flags: vec![Flag { is_upstream: true, ..flag("to", true) }, flag("delay", true), flag("down", true)],
        resets: Vec::new(),
    };
    Roles(vec![site, proxy, link])
}

pub fn read_with(
    text: &str,
    profile: Option<&str>,
    folder: &str,
    files: &dyn Fn(&str) -> Result<String, String>,
) -> Result<Plan, Diagnostics> {
    let roles = roles();
    Plan::read(text, profile, &Surroundings { roles: &roles, folder, read: files, check: &|_, _| Ok(()) })
}

/// Reads a plan with the files `page.conf` and `steps.toml`.
pub fn read(text: &str, profile: Option<&str>) -> Result<Plan, Diagnostics> {
    read_with(text, profile, "/lab", &|path| match path {
        "page.conf" => Ok("listen ${port}; size ${size}; keep $uri and $${host};".to_owned()),
        "steps.toml" => Ok("[[scenario]]\nname = \"a\"\n".to_owned()),
        _ => Err("there is no such file".to_owned()),
    })
}
