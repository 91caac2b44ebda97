//! Safe wrappers of operating system functions. The only crate that may contain `unsafe`.
//!
//! | module | contents |
//! |---|---|
//! | `address` | addresses of TCP and Unix sockets |
//! | `arguments` | hiding secrets among the arguments of this process |
//! | `child` | child processes that end with their parent, pinned and limited; adopting orphans |
//! | `clock` | monotonic and wall-clock time |
//! | `cpu` | available processors, pinning threads |
//! | `descriptors` | the limit of open files |
//! | `files` | small files, read whole; programs |
//! | `listener` | listening sockets |
//! | `memory` | trimming the heap |
//! | `precise_wait` | waiting with nanosecond precision |
//! | `resolver` | addresses of host names |
//! | `root` | opening files below a directory, from which no name escapes |
//! | `socket` | non-blocking connect, reset, unacknowledged bytes |
//! | `suspend` | suspending this process |
//! | `timestamps` | receive timestamps of the kernel |
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
mod listener;
mod memory;
mod precise_wait;
mod resolver;
mod root;
mod socket;
mod suspend;
mod timestamps;
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
pub use files::{is_program, read_bounded};
pub use listener::{ListeningSocket, ignore_handshakes};
pub use memory::{limit_retained_memory, trim_heap};
pub use precise_wait::{set_min_timer_slack, wait_until_readable};
pub use resolver::resolve;
pub use root::{FoundEntries, FoundEntry, RootDirectory, RootError};
pub use socket::{connect, connect_outcome, new_unconnected, reset_on_close, unacknowledged_bytes};
pub use suspend::suspend_process;
pub use timestamps::{ReceiveTimestamp, TimestampConverter, enable_timestamps, receive_with_timestamp};
#[cfg(target_os = "linux")]
pub use usage::cpu_time_of_other;
pub use usage::{CpuTime, cpu_time_of_ended_children, cpu_time_of_process, cpu_time_of_thread, resident_bytes};
