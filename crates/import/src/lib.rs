//! Recorded or described traffic as a scenario of `breme load`.
//!
//! | function | reads |
//! |---|---|
//! | [`read_har`] | an HTTP Archive, as browsers export it: one session with the times between its requests |
//! | [`read_curl`] | curl commands, as for a POSIX shell or bash: one session |
//! | [`read_access_log`] | an access log in the common or combined format: a session for each visit of a client |
//! | [`read_openapi`] | an OpenAPI description, in JSON or YAML: a step for each operation that changes nothing |
//!
//! A load accepts a limited number of scenarios and steps: what exceeds the [`Limits`] is left out, with a note.
//!
//! Values whose names mark them as secret become variables of the scenario, and cookies are left out. It knows neither
//! files nor the load generator: texts in, the text of a scenario file out ([`Recording::scenario`]).

mod access_log;
mod curl;
mod encoding;
mod har;
mod notes;
mod openapi;
mod recording;
mod secrets;

pub use access_log::read as read_access_log;
pub use curl::read as read_curl;
pub use har::read as read_har;
pub use openapi::read as read_openapi;
pub use recording::{Limits, Recording};

type Imported = Result<Recording, String>;
