//! Where on this machine control groups can be created: detected once.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use breme_experiment::trial::ResourceLimits;
use thiserror::Error;

use super::folders::{DOOR, kill, remove};
use super::limits::{self, LimitError};

/// Needed by limits.
const CONTROLLERS: [&str; 3] = ["cpu", "memory", "pids"];
/// Prefix of the run's own folder, followed by the PID namespace, the laboratory's PID and a count.
const PREFIX: &str = "breme-";

/// Where control groups can be created.
#[derive(Debug, Default)]
pub struct Hierarchy {
    folders: Arc<RunFolders>,
    /// The places that were tried, and why they cannot be used.
    refusals: Vec<String>,
    made: AtomicU32,
}

/// The run's own folders, removed when neither the run nor a group in them needs them.
#[derive(Debug, Default)]
pub(crate) struct RunFolders {
    /// Version 2, and the available controllers.
    unified: Option<(PathBuf, Vec<&'static str>)>,
    /// Version 1, by controller.
    separate: BTreeMap<&'static str, PathBuf>,
}

/// The control groups of one subject; that of version 2 first.
#[derive(Debug, Default)]
pub(crate) struct Group {
    pub(crate) folders: Vec<PathBuf>,
    /// No group could limit the number of processes, so RLIMIT_NPROC must.
    pub(crate) needs_process_limit: bool,
    pub(crate) run: Arc<RunFolders>,
}

/// A group that could not be made, or not with its limits.
#[derive(Debug, Error)]
pub enum GroupError {
    #[error("the control group {folder} cannot be made: {source}")]
    Make { folder: PathBuf, source: io::Error },
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// No group has the controller of this limit.
    #[error(
        "{what} cannot be limited here: {reason}. Run as root, have the group delegated (systemd-run --user --scope -p Delegate=yes …), or omit this limit"
    )]
    NoController { what: &'static str, reason: String },
}

/// A place where no group can be made.
#[derive(Debug, Error)]
#[error("{path}: {source}")]
struct GroupRefusal {
    path: PathBuf,
    source: io::Error,
}

struct Tree {
    mount: PathBuf,
    /// Our position in it.
    own: PathBuf,
    /// None: version 2.
    controllers: Option<Vec<&'static str>>,
}

impl Hierarchy {
    /// Detects where this process may create groups, and removes groups left by killed laboratories.
    #[must_use]
    pub fn find() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        Self::find_in(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"))
    }

    /// No hierarchy, as if none were permitted.
    #[must_use]
    pub fn none(why: &str) -> Self {
        Self { refusals: vec![why.to_owned()], ..Self::default() }
    }

    /// The same from the contents of `/proc/self/mountinfo` and `/proc/self/cgroup`.
    #[must_use]
    pub fn find_in(mounts: &str, membership: &str) -> Self {
        let (mut folders, mut refusals) = (RunFolders::default(), Vec::new());
        for tree in trees(mounts, membership) {
            match &tree.controllers {
                None => folders.take_unified(&tree, &mut refusals),
                Some(controllers) => folders.take_separate(&tree, controllers, &mut refusals),
            }
        }
        if folders.unified.is_none() && folders.separate.is_empty() && refusals.is_empty() {
            refusals.push(String::from("no cgroup file system is mounted"));
        }
        Self { folders: Arc::new(folders), refusals, made: AtomicU32::new(0) }
    }

    /// Whether CPU time, memory and the number of processes of subjects can be limited.
    ///
    /// # Errors
    /// A limit that cannot be set, and why.
    pub fn check_limits(&self) -> Result<(), GroupError> {
        let limits = ResourceLimits {
            cpu: Some(1.0),
            memory_bytes: Some(1 << 30),
            processes: Some(100),
            ..ResourceLimits::default()
        };
        self.make("check", &limits).map(|group| remove(&group.folders))
    }

    /// Creates the group of a subject, with its limits.
    ///
    /// # Errors
    /// The limit that could not be set, and why.
    pub(crate) fn make(&self, name: &str, wanted: &ResourceLimits) -> Result<Group, GroupError> {
        let name = format!("{}-{}", self.made.fetch_add(1, Ordering::Relaxed), plain(name));
        let mut group = Group { run: Arc::clone(&self.folders), ..Group::default() };
        match self.fill(&name, wanted, &mut group) {
            Ok(()) => Ok(group),
            Err(error) => {
                remove(&group.folders);
                Err(error)
            }
        }
    }

    fn fill(&self, name: &str, wanted: &ResourceLimits, group: &mut Group) -> Result<(), GroupError> {
        if let Some((run, _)) = &self.folders.unified {
            group.folders.push(make_group(run, name)?);
        }
        for limit in limits::all(wanted) {
            let is_unified = |(_, controllers): &&(PathBuf, Vec<_>)| controllers.contains(&limit.controller);
            if let Some((run, _)) = self.folders.unified.as_ref().filter(is_unified) {
                limit.set(&run.join(name), limits::Version::Unified)?;
            } else if let Some(run) = self.folders.separate.get(limit.controller) {
                let folder = make_group(run, name)?;
                limit.set(&folder, limits::Version::Separate)?;
                group.folders.push(folder);
            } else if limit.controller == "pids" && !rustix::process::geteuid().is_root() {
                group.needs_process_limit = true;
            } else {
                return Err(GroupError::NoController { what: limit.what, reason: self.why_not(limit.controller) });
            }
        }
        Ok(())
    }

    fn why_not(&self, controller: &str) -> String {
        match (&self.folders.unified, self.refusals.as_slice()) {
            (Some((run, _)), []) => {
                format!("the cgroup controller `{controller}` is not delegated to {}", parent_of(run).display())
            }
            (_, refusals) => refusals.join("; "),
        }
    }
}

impl RunFolders {
    /// The nearest group, from ours upwards, that delegates the most controllers. One that delegates none still keeps
    /// processes together.
    fn take_unified(&mut self, tree: &Tree, refusals: &mut Vec<String>) {
        let mut best: Option<(PathBuf, Vec<&'static str>)> = None;
        for place in tree.own.ancestors().take_while(|place| place.starts_with(&tree.mount)) {
            let (run, controllers) = match make_run(place) {
                Ok(run) => (run.clone(), hand_down(place, &run)),
                Err(refusal) => {
                    refusals.push(refusal.to_string());
                    continue;
                }
            };
            if best.as_ref().is_none_or(|(_, known)| known.len() < controllers.len()) {
                let worse = best.replace((run, controllers));
                worse.iter().for_each(|(run, _)| drop(fs::remove_dir(run)));
            } else {
                let _ = fs::remove_dir(&run);
            }
            if best.as_ref().is_some_and(|(_, controllers)| controllers.len() == CONTROLLERS.len()) {
                break;
            }
        }
        self.unified = best;
    }

    fn take_separate(&mut self, tree: &Tree, controllers: &[&'static str], refusals: &mut Vec<String>) {
        match make_run(&tree.own) {
            Ok(run) => self.separate.extend(controllers.iter().map(|&controller| (controller, run.clone()))),
            Err(refusal) => refusals.push(refusal.to_string()),
        }
    }
}

impl Drop for RunFolders {
    fn drop(&mut self) {
        for run in self.unified.iter().map(|(run, _)| run).chain(self.separate.values()) {
            // Remains if it has processes; the next run removes it.
            let _ = fs::remove_dir(run);
        }
    }
}

fn parent_of(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}

/// Makes a name a single path component.
fn plain(name: &str) -> String {
    name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' }).take(40).collect()
}

fn make_group(run: &Path, name: &str) -> Result<PathBuf, GroupError> {
    let folder = run.join(name);
    // Controllers that are mounted together share a folder.
    match fs::create_dir_all(&folder) {
        Ok(()) => Ok(folder),
        Err(source) => Err(GroupError::Make { folder, source }),
    }
}

/// The run's own folder in `place`, if it can be created and processes can be moved into it (which also requires write
/// permission on the list of `place`; cgroups(7), delegation containment).
fn make_run(place: &Path) -> Result<PathBuf, GroupRefusal> {
    let refused = |path: &Path, source| GroupRefusal { path: path.to_owned(), source };
    clear_away(place);
    let door = place.join(DOOR);
    fs::OpenOptions::new().write(true).open(&door).map_err(|error| refused(&door, error))?;
    static FOUND: AtomicU32 = AtomicU32::new(0);
    let number = FOUND.fetch_add(1, Ordering::Relaxed);
    let run = place.join(format!("{}{}.{number}", prefix(), std::process::id()));
    fs::create_dir_all(&run).map_err(|error| refused(&run, error))?;
    Ok(run)
}

/// [`PREFIX`] and the namespace: PIDs are meaningful only within it.
fn prefix() -> String {
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let digits: String = namespace.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
    format!("{PREFIX}{digits}-")
}

/// Kills the processes in groups of laboratories that have exited, and removes the groups.
fn clear_away(place: &Path) {
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(pid) =
            name.to_str().and_then(|name| name.strip_prefix(&prefix())?.split('.').next()?.parse::<u32>().ok())
        else {
            continue;
        };
        if Path::new("/proc").join(pid.to_string()).exists() {
            continue;
        }
        let groups: Vec<PathBuf> =
            fs::read_dir(entry.path()).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        kill(&groups);
        groups.iter().for_each(|group| drop(fs::remove_dir(group)));
        let _ = fs::remove_dir(entry.path());
    }
}

/// Enables the controllers from `place` down to the groups in `run`. Returns those that could be enabled.
fn hand_down(place: &Path, run: &Path) -> Vec<&'static str> {
    let there = |folder: &Path, controller: &str| {
        let listed = fs::read_to_string(folder.join("cgroup.subtree_control")).unwrap_or_default();
        listed.split_ascii_whitespace().any(|name| name == controller)
    };
    let hand = |folder: &Path, controller: &str| {
        there(folder, controller)
            || fs::write(folder.join("cgroup.subtree_control"), format!("+{controller}"))
                .is_ok_and(|()| there(folder, controller))
    };
    CONTROLLERS.into_iter().filter(|controller| hand(place, controller) && hand(run, controller)).collect()
}

/// The mounted trees, with our position in each.
fn trees(mounts: &str, membership: &str) -> Vec<Tree> {
    mounts.lines().filter_map(|line| tree(line, membership)).collect()
}

/// proc_pid_mountinfo(5): `36 35 98:0 /root /mount options … - type source super-options`.
fn tree(line: &str, membership: &str) -> Option<Tree> {
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ').skip(3);
    let (root, mount) = (left.next()?, PathBuf::from(left.next()?));
    let mut right = right.split(' ');
    let (kind, options) = (right.next()?, right.nth(1)?);
    let controllers = match kind {
        "cgroup2" => None,
        "cgroup" => {
            let known = CONTROLLERS.into_iter().filter(|known| options.split(',').any(|option| option == *known));
            Some(known.collect::<Vec<_>>()).filter(|known| !known.is_empty())
        }
        _ => return None,
    };
    if kind == "cgroup" && controllers.is_none() {
        return None;
    }
    let own = own_path(controllers.as_deref(), membership)?;
    // The mount may be a part of the tree (a container); then our path is relative to the tree's root, not to the
    // mount.
    let below = own.strip_prefix(root.trim_end_matches('/')).unwrap_or("");
    let own = mount.join(below.trim_start_matches('/'));
    Some(Tree { mount, own, controllers })
}

/// Our position in `/proc/self/cgroup`: `0::/path`, or `7:cpu,cpuacct:/path`.
fn own_path<'a>(controllers: Option<&[&str]>, membership: &'a str) -> Option<&'a str> {
    membership.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, names, path) = (parts.next()?, parts.next()?, parts.next()?);
        let is_it = match controllers {
            None => names.is_empty(),
            Some(controllers) => names.split(',').any(|name| controllers.contains(&name)),
        };
        is_it.then_some(path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
30 25 0:26 / /sys/fs/cgroup ro,nosuid - tmpfs tmpfs ro,mode=755
31 30 0:27 / /sys/fs/cgroup/unified rw,nosuid - cgroup2 cgroup2 rw,nsdelegate
32 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
33 30 0:29 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
34 30 0:30 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer
";
    const MEMBERSHIP: &str = "9:name=systemd:/\n7:cpu,cpuacct:/a\n4:memory:/docker/abc/b\n0::/user.slice/x\n";

    #[test]
    fn our_place_in_each_tree_is_found() {
        let trees = trees(MOUNTS, MEMBERSHIP);
        let found: Vec<_> = trees.iter().map(|tree| (tree.own.to_str().unwrap(), tree.controllers.clone())).collect();
        assert_eq!(
            found,
            [
                ("/sys/fs/cgroup/unified/user.slice/x", None),
                ("/sys/fs/cgroup/cpu,cpuacct/a", Some(vec!["cpu"])),
                ("/sys/fs/cgroup/memory/b", Some(vec!["memory"])),
            ]
        );
    }

    #[test]
    fn where_nothing_is_permitted_a_limit_says_why() {
        let found = Hierarchy::find_in("31 30 0:27 / /proc/nowhere rw - cgroup2 cgroup2 rw\n", "0::/\n");
        let wanted = ResourceLimits { memory_bytes: Some(1 << 20), ..ResourceLimits::default() };
        let error = found.make("s", &wanted).unwrap_err().to_string();
        assert!(error.contains("memory cannot be limited here: /proc/nowhere/cgroup.procs"), "{error}");
        assert!(error.contains("Delegate=yes"), "{error}");
        assert!(
            found.make("s", &ResourceLimits::default()).unwrap().folders.is_empty(),
            "without limits it does without"
        );
        let error = Hierarchy::find_in("", "").make("s", &wanted).unwrap_err().to_string();
        assert!(error.contains("no cgroup file system is mounted"), "{error}");
    }

    /// A version 2 tree of plain files whose controllers are delegated, in addition to version 1, which is then not
    /// used.
    fn delegated(controllers: &[&'static str]) -> (tempfile::TempDir, Hierarchy) {
        let folder = tempfile::tempdir().unwrap();
        let [unified, separate] = ["unified", "pids"].map(|name| folder.path().join(name));
        fs::create_dir_all(&separate).unwrap();
        fs::create_dir_all(&unified).unwrap();
        let folders = RunFolders {
            unified: Some((unified, controllers.to_vec())),
            separate: BTreeMap::from([("pids", separate)]),
        };
        let hierarchy = Hierarchy { folders: Arc::new(folders), refusals: Vec::new(), made: AtomicU32::new(0) };
        (folder, hierarchy)
    }

    const ALL: ResourceLimits =
        ResourceLimits { cpu: Some(0.5), memory_bytes: Some(1 << 20), open_files: None, processes: Some(9) };

    #[test]
    fn a_group_of_version_2_has_all_limits_in_one_folder() {
        let (_folder, hierarchy) = delegated(&CONTROLLERS);
        let group = hierarchy.make("edge", &ALL).unwrap();
        let [only] = group.folders.as_slice() else { panic!("{group:?}") };
        let written = |name: &str| fs::read_to_string(only.join(name)).unwrap();
        assert_eq!(["cpu.max", "memory.max", "pids.max"].map(written), ["50000 100000", "1048576", "9"]);
        assert!(!only.join("memory.swap.max").exists(), "a kernel without swap has no such file");
        assert!(!group.needs_process_limit);
        // What the kernel reports for such a group.
        fs::write(only.join("cpu.stat"), "usage_usec 30\nuser_usec 10\nsystem_usec 20\n").unwrap();
        fs::write(only.join("memory.events"), "low 0\noom 2\noom_kill 1\n").unwrap();
        fs::write(only.join("cgroup.kill"), "").unwrap();
        let micros = std::time::Duration::from_micros;
        assert_eq!(super::super::usage(&group.folders), Some((micros(10), micros(20))));
        assert_eq!(super::super::out_of_memory_kills(&group.folders), 1);
        kill(&group.folders);
        assert_eq!(written("cgroup.kill"), "1");
    }

    #[test]
    fn a_controller_that_is_not_handed_down_is_found_in_version_1_or_named() {
        let (folder, hierarchy) = delegated(&["cpu"]);
        let some = ResourceLimits { memory_bytes: None, ..ALL };
        let group = hierarchy.make("edge", &some).unwrap();
        let places: Vec<PathBuf> = group.folders.iter().map(|folder| parent_of(folder).to_owned()).collect();
        assert_eq!(places, ["unified", "pids"].map(|name| folder.path().join(name)), "version 2 first");
        assert_eq!(fs::read_to_string(group.folders[1].join("pids.max")).unwrap(), "9");
        let error = hierarchy.make("edge", &ALL).unwrap_err().to_string();
        assert!(error.contains("`memory` is not delegated to"), "{error}");
    }

    #[test]
    fn names_are_made_fit_for_a_folder() {
        assert_eq!(plain("../a b/ü"), "___a_b__");
    }
}
