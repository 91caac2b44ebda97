//! The server's side of a connection.
//!
//! | file | what |
//! |---|---|
//! | `connection` | where it stands, and what a role may ask |
//! | `receiving` | bytes become requests |
//! | `answering` | answers become bytes |
//! | `repeating` | an exchange that is the same as one before |

mod answering;
mod connection;
mod receiving;
mod repeating;

pub use answering::{Content, ResponseWriter};
pub use connection::ServerConnection;
pub use receiving::Progress;
