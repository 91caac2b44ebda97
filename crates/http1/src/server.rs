//! The server side of a connection.

mod connection;
mod replay;
mod request;
mod response;

pub use connection::ServerConnection;
pub use request::Progress;
pub use response::{ResponseBody, ResponseWriter};
