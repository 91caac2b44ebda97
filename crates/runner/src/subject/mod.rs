//! Subjects: systems under test, started from what the plan says, kept, and ended.
//!
//! | file | what |
//! |---|---|
//! | `launch.rs` | from a [`SubjectSpec`] to a subject that is ready |
//! | `template.rs` | `${port}` and the like in texts |
//! | `ports.rs`, `folder.rs` | free ports; the subject's own folder and its files |
//! | `ready.rs` | waiting until it is ready |
//! | `running.rs`, `signals.rs` | the subject from then on; how it is asked to end |
//! | `token.rs` | what opens the admin address of our own servers for changes |
//! | `reset.rs` | what is done to it between trials |
//! | `faults.rs` | what is done to it within a trial |

mod faults;
mod instance;
mod launch;
mod ports;
mod ready;
mod reset;
mod signals;
mod template;
mod token;

pub use instance::Subject;
pub use launch::Launcher;
pub use ports::Ports;
pub(crate) use ports::pick as pick_ports;
pub(crate) use ready::connect;
pub use template::Names;
