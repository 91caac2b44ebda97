//! Subjects: systems under test, started according to the plan, supervised, and stopped.
//!
//! | file | what |
//! |---|---|
//! | `launch.rs` | starts a [`SubjectSpec`] and waits until it is ready |
//! | `template.rs` | `${port}` and the like in texts |
//! | `ports.rs` | free ports |
//! | `ready.rs` | waiting until it is ready |
//! | `instance.rs`, `signals.rs` | the running subject; the signal that stops it |
//! | `token.rs` | the token of our own servers' admin address |
//! | `reset.rs` | resets between trials |
//! | `faults.rs` | faults injected within a trial |

mod faults;
mod instance;
mod launch;
mod ports;
mod ready;
mod reset;
mod signals;
mod template;
mod token;

pub use faults::FaultError;
pub use instance::Subject;
pub(crate) use launch::said;
pub use launch::{CommandError, Launcher, StartError};
pub use ports::{NoPort, Ports, pick as pick_ports};
pub use ready::accepts_connections;
pub use reset::{ResetActionError, ResetError, RestartError};
pub use signals::UnknownSignal;
pub use template::{FillError, PlaceholderNames};
pub use token::{TokenError, TokenFileProblem};
