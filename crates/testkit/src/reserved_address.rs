use std::net::SocketAddr;

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with, sockopt};

/// An address of 127.0.0.1 on which only a server listens that is configured to, until the end of the test process: a
/// socket that is bound but does not listen keeps the kernel from assigning its port to others. Servers can bind it
/// explicitly, and again after they have ended, as all of them share addresses (SO_REUSEADDR).
///
/// # Panics
/// If there is no descriptor or no port.
#[must_use]
pub fn reserved_address() -> SocketAddr {
    reserve().expect("the kernel has a free port")
}

fn reserve() -> rustix::io::Result<SocketAddr> {
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0)))?;
    let address = getsockname(&socket)?.try_into()?;
    std::mem::forget(socket);
    Ok(address)
}
