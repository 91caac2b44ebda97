//! Supervised processes, none of which can outlive the laboratory.
//!
//! ```text
//!   laboratory ──orders──► keeper ──starts──► program ──► what it starts …
//!        ▲  ◄──reports──── (parent of all)        │ stdout, stderr
//!        └────────────────────────────────────────┘
//! ```
//!
//! Each program has a keeper: a small process of our own between it and the laboratory. The keeper adopts every orphan
//! below it (PR_SET_CHILD_SUBREAPER), so that a process that forks, changes its session or loses its parent remains its
//! descendant. On request, or when the laboratory **ends in any way** (the kernel closes the keeper's channel, also
//! after `kill -9`), it kills all of them and waits until none is left. With a control group, one write kills all at
//! once; without one the keeper walks through `/proc`.
//!
//! PR_SET_PDEATHSIG alone is not enough: it reaches the program and none of its children. It is set as well, in case
//! the keeper itself is killed.

mod captured_output;
mod exit;
mod keeper;
mod message;
mod program;
mod supervised_process;
mod watcher;

pub use exit::ExitInfo;
pub use keeper::keep;
pub use program::{find_program, missing};
pub use supervised_process::{Keeper, SpawnError, SpawnSpec, StopError, SupervisedProcess};
