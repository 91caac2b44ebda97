//! Secrets in files: the keys of cookies, and the secret that authenticates nodes of one machine.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use breme_cluster::peers::{PeerTls, Peers};
use breme_command::failure::Failure;
use breme_command::server::random_bits;
use breme_session::{CookieKeys, SECRET_MIN};
use breme_sys::read_bounded;

use super::arguments::{EngineChoice, SessionArgs};

const FILE_BYTES_MAX: u64 = 64 * 1024;
/// In the folder of the embedded engine.
const KEYS: &str = "cookie.keys";

/// The keys of a node's cookies, and the secret shared with other nodes.
pub(super) struct Secrets {
    pub(super) peers: Peers,
    pub(super) keys: CookieKeys,
}

impl Secrets {
    /// Those named by the flags; with the certificate for other nodes, if there is one.
    pub(super) fn new(args: &SessionArgs, peer_tls: Option<&PeerTls>) -> Result<Self, Failure> {
        let keys = cookie_keys(args)?;
        let peers = peer_tls.map_or_else(|| peers_with_secret(args), |tls| Ok(Peers::over_tls(tls.clone())));
        Ok(Self { peers: peers?, keys })
    }
}

/// Cookie keys derived from this secret.
pub(super) fn keys_of(secret: &str) -> Result<CookieKeys, Failure> {
    CookieKeys::new([secret.as_bytes()]).map_err(Failure::run)
}

/// Nodes of this machine with this secret.
pub(super) fn peers_of(secret: &[u8]) -> Result<Peers, Failure> {
    Peers::on_this_machine(secret).map_err(Failure::usage)
}

/// The keys of cookies. If the whole cluster is on this machine, the file is created if it does not exist, but not by
/// a node of `--nodes`: its supervisor has done so.
pub(super) fn cookie_keys(args: &SessionArgs) -> Result<CookieKeys, Failure> {
    let is_whole = !args.supervised && (args.nodes.is_some() || matches!(args.engine, EngineChoice::Embedded(_)));
    let (path, is_created) = match (&args.cookie_key_file, &args.engine) {
        (Some(path), _) => (path.clone(), is_whole),
        (None, EngineChoice::Embedded(folder)) => (folder.join(KEYS), is_whole),
        (None, EngineChoice::Nats(_)) => {
            return Err(Failure::usage(
                "--cookie-key-file FILE is missing: all nodes sign cookies with the same secret; create it with `openssl rand -hex 32 > FILE`",
            ));
        }
    };
    let fault = |problem: String| Failure::usage(format!("--cookie-key-file {}: {problem}", path.display()));
    if is_created && !path.exists() {
        create(&path).map_err(|error| fault(format!("cannot be created: {error}")))?;
    }
    let text = read_bounded(&path, FILE_BYTES_MAX).map_err(|error| fault(format!("cannot be read: {error}")))?;
    let secrets = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|secret| !secret.is_empty());
    CookieKeys::new(secrets).map_err(|error| fault(error.to_string()))
}

/// Writes a new secret to a file that only this user may read.
fn create(path: &Path) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let secret = random_secret().map_err(|failure| io::Error::other(failure.message))?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    writeln!(file, "{secret}")?;
    file.sync_all()
}

/// 256 bits, as text.
pub(super) fn random_secret() -> Result<String, Failure> {
    Ok(format!("{:032x}{:032x}", random_bits()?, random_bits()?))
}

/// How this node authenticates others without certificates.
fn peers_with_secret(args: &SessionArgs) -> Result<Peers, Failure> {
    let secret = match (&args.peer_secret_file, &args.engine) {
        (Some(path), _) => read("--peer-secret-file", path)?.trim_ascii().to_vec(),
        // There are no others.
        (None, EngineChoice::Embedded(_)) => random_secret()?.into_bytes(),
        (None, EngineChoice::Nats(_)) => {
            return Err(Failure::usage(format!(
                "the nodes cannot authenticate each other: add --peer-cert, --peer-key and --peer-ca, or, if all nodes are on this machine, --peer-secret-file with at least {SECRET_MIN} bytes"
            )));
        }
    };
    peers_of(&secret)
}

/// Reads a file named by a flag.
pub(super) fn read(flag: &str, path: &Path) -> Result<Vec<u8>, Failure> {
    let fault = |error| Failure::usage(format!("{flag} {}: cannot be read: {error}", path.display()));
    read_bounded(path, FILE_BYTES_MAX).map_err(fault)
}
