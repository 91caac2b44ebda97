//! Control groups: what a subject may use, all its processes together; who belongs to it; how all of it is killed at
//! once.
//!
//! A group is a folder. In version 2 there is one tree; its `cgroup.kill` and `cpu.stat` are there in every group, and
//! limits where the controllers are handed down to it. Many systems still have version 1 trees, one for each
//! controller; then the limits are set there, and version 2 (mounted beside them) holds the group together. So a
//! subject has one or several folders, the one of version 2 first.

mod folders;
mod hierarchy;
mod limits;

pub(crate) use folders::{
    freeze, kill, open_doors, out_of_memory_kills, parse_usage, remove, remove_runs, thaw, usage,
};
pub use hierarchy::Hierarchy;
pub(crate) use hierarchy::{Group, RunFolders};
