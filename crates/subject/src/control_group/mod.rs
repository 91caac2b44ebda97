//! Control groups: resource limits for all processes of a subject together, its membership, and killing all of them at
//! once.
//!
//! A group is a folder. Version 2 has one tree; `cgroup.kill` and `cpu.stat` exist in every group, and limits where the
//! controllers are delegated to it. Many systems still have version 1 trees, one per controller; then the limits are
//! set there, and version 2 (mounted as well) keeps the group together. So a subject has one or several folders, that
//! of version 2 first.

mod folders;
mod hierarchy;
mod limits;

pub use folders::FreezeError;
pub(crate) use folders::{
    freeze, kill, open_doors, out_of_memory_kills, parse_usage, remove, remove_runs, thaw, usage,
};
pub(crate) use hierarchy::{Group, RunFolders};
pub use hierarchy::{GroupError, Hierarchy};
pub use limits::LimitError;
