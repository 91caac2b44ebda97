//! `--nodes`: a whole cluster on this machine, with a director in front.
//!
//! The director is a process of `breme proxy` that follows the route part of the session's cookie. With an engine in a
//! folder, which only one process may open, the nodes are in this process. Otherwise each is a process of its own
//! (`supervisor`): when one exits, the others are notified at once, and it is restarted at its address.

mod director;
mod front;
mod hangups;
mod node_place;
mod processes;
mod program;
mod together;

pub(super) use processes::serve_processes;
pub(super) use together::serve_together;
