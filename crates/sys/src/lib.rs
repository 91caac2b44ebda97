//! Safe wrappers of operating system functions. The only crate that may contain `unsafe`.
//!
//! | module | contents |
//! |---|---|
//! | `address` | addresses of TCP and Unix sockets |
//! | `arguments` | hiding secrets among the arguments of this process |
//! | `child` | child processes that end with their parent, pinned and limited; adopting orphans |
//! | `clock` | monotonic and calendar time |
//! | `cpu` | available processors, pinning threads |
//! | `descriptors` | the limit of open files |
//! | `files` | small files, read whole |
//! | `listening` | listening sockets |
//! | `memory` | returning freed memory to the system |
//! | `names` | addresses of hosts |
//! | `precise_wait` | waiting with nanosecond precision |
//! | `root` | opening files below a directory, without escapes |
//! | `socket` | non-blocking connect, resetting |
//! | `stamps` | receive timestamps of the kernel |
//! | `suspend` | suspending this process |
//! | `uring` | io_uring (Linux) |
//! | `usage` | CPU time of a process or thread; resident memory |
//!
//! It knows no nodes, connections or HTTP: each function is one or two system calls.

mod address;
mod arguments;
mod child;
mod clock;
mod cpu;
mod descriptors;
mod files;
mod listening;
mod memory;
mod names;
mod precise_wait;
mod root;
mod socket;
mod stamps;
mod suspend;
pub mod uring;
mod usage;

pub use address::Address;
pub use arguments::conceal_argument;
pub use child::{Confinement, adopt_orphans, confine, confine_within, rename_current_thread};
pub use clock::{Clock, monotonic_ns};
pub use cpu::{cpus_allowed, parallelism, pin_current_thread};
pub use descriptors::{
    DescriptorLimit, TooFewDescriptors, descriptor_limit, ensure_descriptor_limit, open_descriptors,
    raise_descriptor_limit,
};
pub use files::read_bounded;
pub use listening::ListeningSocket;
pub use memory::{limit_retained_memory, trim_heap};
pub use names::resolve;
pub use precise_wait::{set_min_timer_slack, wait_until_readable};
pub use root::{FoundEntries, FoundEntry, RootError, SiteRoot};
pub use socket::{connect, connect_outcome, new_unconnected, reset_on_close, unacknowledged_bytes};
pub use stamps::{Stamp, Stamps, receive_with_stamp, stamp_arrivals};
pub use suspend::suspend_process;
#[cfg(target_os = "linux")]
pub use usage::cpu_time_of_other;
pub use usage::{CpuTime, cpu_time_of_ended_children, cpu_time_of_process, cpu_time_of_thread, resident_bytes};
