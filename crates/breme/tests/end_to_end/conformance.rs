//! Every conformance case, on every driver, with each kind of delivery, without and with TLS.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use breme_conformance::{Case, Delivery, Failure, all, connect};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use crate::harness::{DRIVERS, Site};
use crate::tls::Authority;

/// Bytewise delivery is for cases of a usual size; the ones of 100,000 bytes test limits, not cuts.
const BYTEWISE_BYTES_MAX: usize = 8_000;

fn run_all(delivery: Delivery, run: impl Fn(&Case) -> Result<(), Failure>) {
    let failures: Vec<String> = all()
        .iter()
        .filter(|case| delivery != Delivery::Bytewise || case.send.len() <= BYTEWISE_BYTES_MAX)
        .filter_map(|case| run(case).err())
        .map(|failure| failure.to_string())
        .collect();
    assert!(failures.is_empty(), "{} cases failed:\n{}", failures.len(), failures.join("\n"));
}

fn run_all_in_the_clear(server: SocketAddr, delivery: Delivery) {
    run_all(delivery, |case| case.run(server, delivery));
}

#[test]
fn whole() {
    for driver in DRIVERS.iter().copied() {
        run_all_in_the_clear(Site::lab(driver).address, Delivery::Whole);
    }
}

#[test]
fn cut_in_two() {
    for driver in DRIVERS.iter().copied() {
        let site = Site::lab(driver);
        for percent in [20, 50, 80, 97] {
            run_all_in_the_clear(site.address, Delivery::CutAt(percent));
        }
    }
}

#[test]
fn byte_by_byte() {
    for driver in DRIVERS.iter().copied() {
        run_all_in_the_clear(Site::lab(driver).address, Delivery::Bytewise);
    }
}

#[test]
fn over_tls() {
    let authority = Authority::new();
    let signed = authority.server();
    let client = client_of(&authority);
    for driver in DRIVERS.iter().copied() {
        let site = signed.site(driver);
        for delivery in [Delivery::Whole, Delivery::CutAt(50), Delivery::Bytewise] {
            run_all(delivery, |case| case.run_over(|| Secured::connect(site.address, &client), delivery));
        }
    }
}

pub(crate) fn client_of(authority: &Authority) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority.file()).unwrap()).unwrap();
    Arc::new(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth())
}

/// The client side of TLS, by the library alone, without our own driver. An end without close_notify is an error.
pub(crate) struct Secured {
    session: ClientConnection,
    socket: TcpStream,
}

impl Secured {
    pub(crate) fn connect(server: SocketAddr, client: &Arc<ClientConfig>) -> io::Result<Self> {
        let name = ServerName::from(server.ip());
        let mut session = ClientConnection::new(client.clone(), name).map_err(io::Error::other)?;
        let mut socket = connect(server)?;
        while session.is_handshaking() {
            session.complete_io(&mut socket)?;
        }
        Ok(Self { session, socket })
    }
}

impl Write for Secured {
    /// Each write is a record of its own.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.session.writer().write(bytes)?;
        self.flush()?;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            self.session.write_tls(&mut self.socket)?;
        }
        Ok(())
    }
}

impl Read for Secured {
    /// Also after a write that failed, since the server may have answered and closed before all was sent.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.session.reader().read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                outcome => return outcome,
            }
            self.session.read_tls(&mut self.socket)?;
            self.session.process_new_packets().map_err(io::Error::other)?;
        }
    }
}
