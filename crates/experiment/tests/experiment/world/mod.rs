//! The context of the tests' plans: the flags of a server, and a folder of files held in memory.

use breme_experiment::plan::{Diagnostics, Flag, Plan, Role, RoleReset, Roles, Surroundings};
use breme_experiment::trial::{ResetAction, TrialKey, TrialSpec};

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

/// Reads a plan that must be valid.
pub fn plan(text: &str) -> Plan {
    read(text, None).unwrap_or_else(|faults| panic!("{text}\n{faults}"))
}

/// The trial of a combination in the first block.
pub fn trial(plan: &Plan, combination: u32) -> TrialSpec {
    plan.trial(&TrialKey { block: 1, combination, replicate: 0 }).unwrap()
}

/// The position and the message of each error in a file that has some.
pub fn messages(text: &str) -> Vec<String> {
    let faults = read(text, None).err().unwrap_or_else(|| panic!("nothing is wrong with\n{text}"));
    faults.0.iter().map(|fault| fault.to_string().lines().next().unwrap_or_default().to_owned()).collect()
}

/// Makes each mistake of a table in a valid file. A row is `TEXT → REPLACEMENT`, in which `\n` is a line break, and a
/// second line with the messages, separated by ` | `.
pub fn check_slips(good: &str, slips: &str) {
    let mut wrong = Vec::new();
    let mut lines = slips.trim().lines();
    while let (Some(slip), Some(expected)) = (lines.next(), lines.next().map(str::trim)) {
        let written = slip.replace("\\n", "\n");
        let (from, to) = written.split_once(" →").unwrap();
        assert!(good.contains(from), "{from}");
        let reported = messages(&good.replacen(from, to.trim_start(), 1)).join(" | ");
        if reported != expected {
            wrong.push(format!("{slip}\n    {reported}\n    {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{} slips are told in another way:\n{}", wrong.len(), wrong.join("\n"));
}
