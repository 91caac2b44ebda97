//! What breme asks of the operating system, behind safe functions. The only crate that may hold `unsafe`.
//!
//! | module | what |
//! |---|---|
//! | `child` | starting a process that cannot be left behind, on its own processors, within limits; adopting what its children leave |
//! | `clock` | the run's monotonic time, and the calendar's |
//! | `cpu` | which processors there are for us, and pinning a thread to some |
//! | `descriptors` | open files and their limit: raising it, and saying what lacks |
//! | `memory` | memory that was freed and goes back to the system |
//! | `root` | opening files below a folder out of which nothing leads |
//! | `socket` | listeners, accepting, connecting without waiting, ending by a reset |
//! | `stamps` | when the kernel received bytes |
//! | `uring` | io_uring (Linux): wishes gathered, completions brought |
//! | `usage` | CPU time of this process, a thread, another process; resident memory |
//! | `waiting` | waiting to the nanosecond |
//!
//! It knows no nodes, no connections' lives and no HTTP: it turns one wish into one or two system calls.

mod child;
mod clock;
mod cpu;
mod descriptors;
mod memory;
mod root;
mod socket;
mod stamps;
pub mod uring;
mod usage;
mod waiting;

pub use child::{Confinement, adopt_orphans, confine, confine_within, rename_current_thread};
pub use clock::{Clock, monotonic_ns};
pub use cpu::{cpus_allowed, parallelism, pin_current_thread};
pub use descriptors::{
    DescriptorLimit, TooFewDescriptors, descriptor_limit, descriptors_needed, open_descriptors, raise_descriptor_limit,
};
pub use memory::{bound_unused_memory, return_unused_memory};
pub use root::{FoundEntries, FoundEntry, RootError, SiteRoot};
pub use socket::{
    accept, connect, connect_outcome, listen, listen_beside, new_unconnected, peer_of, reset_on_close,
    unacknowledged_bytes,
};
pub use stamps::{Stamp, Stamps, receive_with_stamp, stamp_arrivals};
#[cfg(target_os = "linux")]
pub use usage::cpu_time_of_other;
pub use usage::{CpuTime, cpu_time_of_ended_children, cpu_time_of_process, cpu_time_of_thread, resident_bytes};
pub use waiting::{sharpen_timers, wait_until_readable};
