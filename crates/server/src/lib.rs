//! The server's side of accepted connections, as far as origin, proxy and admin share it.
//!
//! | module | contents |
//! |---|---|
//! | `content_progress` | how fast a request's content must arrive |
//! | `date_line` | the wall clock, and the Date header |

mod content_progress;
mod date_line;

pub use content_progress::ContentProgress;
pub use date_line::DateLine;
