//! Connections that have been served once and wait for their next request.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::processes::Processes;
use crate::servers::Server;

/// How long an answer may take.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);
/// The most that a head may have before the answer counts as wrong.
const HEAD_BYTES_MAX: usize = 4_096;

/// Opens `count` connections, asks once on each and reads the whole answer, of `bytes` bytes of content. They stay
/// open until the value is dropped.
pub(crate) fn hold(
    processes: &Processes,
    server: &Server,
    path: &str,
    bytes: usize,
    count: usize,
) -> Result<Vec<TcpStream>, String> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", server.address());
    let mut connections = Vec::with_capacity(count);
    for number in 1..=count {
        if processes.interrupted_by().is_some() {
            return Err(String::from("interrupted"));
        }
        let connection = ask(server, &request, bytes);
        connections.push(connection.map_err(|error| format!("connection {number} of {count}: {error}"))?);
    }
    Ok(connections)
}

/// Fails if the server has closed one: it may do so when it runs out of room, and would then be praised for its thrift.
pub(crate) fn are_open(connections: &[TcpStream]) -> Result<(), String> {
    let is_closed = |connection: &&TcpStream| {
        let looked = connection.set_nonblocking(true).and_then(|()| connection.peek(&mut [0]));
        !looked.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    };
    match connections.iter().filter(is_closed).count() {
        0 => Ok(()),
        closed => Err(format!("the server closed {closed} of {} idle connections", connections.len())),
    }
}

fn ask(server: &Server, request: &str, bytes: usize) -> std::io::Result<TcpStream> {
    let mut connection = TcpStream::connect(server.address())?;
    connection.set_read_timeout(Some(ANSWERED_WITHIN))?;
    connection.write_all(request.as_bytes())?;
    let mut answer = vec![0; HEAD_BYTES_MAX + bytes];
    let mut filled = 0;
    while !is_whole(&answer[..filled], bytes) {
        let count = connection.read(&mut answer[filled..])?;
        if count == 0 {
            let seen = String::from_utf8_lossy(&answer[..filled.min(200)]).into_owned();
            return Err(std::io::Error::other(format!("an incomplete or overlong answer: {seen:?}")));
        }
        filled += count;
    }
    Ok(connection)
}

fn is_whole(answer: &[u8], bytes: usize) -> bool {
    let end_of_head = answer.windows(4).position(|window| window == b"\r\n\r\n");
    answer.starts_with(b"HTTP/1.1 200 ") && end_of_head.is_some_and(|end| answer.len() == end + 4 + bytes)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_closed_connection_is_noticed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connect = || {
            let connection = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            (connection, listener.accept().unwrap().0)
        };
        let ((one, other_end), (two, _other_end)) = (connect(), connect());
        let connections = [one, two];
        assert_eq!(are_open(&connections), Ok(()));
        drop(other_end);
        connections[0].set_nonblocking(false).unwrap();
        assert_eq!(connections[0].peek(&mut [0]).unwrap(), 0);
        assert_eq!(are_open(&connections), Err(String::from("the server closed 1 of 2 idle connections")));
    }

    #[test]
    fn an_answer_is_whole_with_the_last_byte_of_its_content() {
        assert!(is_whole(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab", 2));
        assert!(!is_whole(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na", 2));
        assert!(!is_whole(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n", 2));
        assert!(!is_whole(b"HTTP/1.1 404 No\r\nContent-Length: 2\r\n\r\nab", 2));
    }
}
