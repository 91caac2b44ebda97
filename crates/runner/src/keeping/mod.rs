//! Processes that cannot be left behind.
//!
//! ```text
//!   laboratory ──orders──► keeper ──starts──► program ──► what it starts …
//!        ▲  ◄──reports──── (parent of all)        │ stdout, stderr
//!        └────────────────────────────────────────┘
//! ```
//!
//! Each program has a keeper: a small process of our own between it and the laboratory. The keeper adopts every orphan
//! below it (PR_SET_CHILD_SUBREAPER), so that whatever forks, changes its session or loses its parent stays its
//! descendant. When the laboratory says so, or **ends in any way** (the kernel closes the keeper's channel, also after
//! `kill -9`), it kills all of them and waits until none is left. Where there is a control group, one write kills all
//! at once; without it the keeper walks through `/proc`.
//!
//! PR_SET_PDEATHSIG alone would not do: it reaches the program and none of its workers. It is set all the same, in case
//! that the keeper itself is killed.

mod captured_output;
mod exit;
mod keeper;
mod message;
mod program;
mod supervised_process;
mod watcher;

pub use exit::ExitInfo;
pub use keeper::keep;
pub use program::find_program;
pub(crate) use program::missing;
pub use supervised_process::{Keeper, SpawnSpec, StartFault, SupervisedProcess};
