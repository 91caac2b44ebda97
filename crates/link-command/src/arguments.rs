//! The flags, and their conversion to settings of the path and the driver.

use std::net::SocketAddr;
use std::time::Duration;

use breme_base::{split_scheme, split_scheme_or};
use breme_command::failure::Failure;
use breme_command::server::{ListenPlace, ProcessFlags, random_bits, resolve, resolve_all};
use breme_command::units;
use breme_driver::DriverSettings;
use breme_link::{Bandwidth, Direction, Link, Settings, SettingsError};
use breme_node::ConnectError;
use clap::ValueEnum;

/// Time limit of a receiver that reads nothing. A path has no policy for slow readers; this bounds their cost.
const SEND_TIMEOUT: Duration = Duration::from_secs(3_600);

const EXAMPLES: &str = "Examples:
  breme link --to localhost:80 --delay 18ms --up 2Mbit --down 60Mbit               # a client's line
  breme link --to localhost:80 --delay 18ms --side server --up 1Mbit --down 20Mbit # a server's line
  breme link --to localhost:80 --delay 50ms --jitter 20ms --loss 1%                # mobile network

SIGTERM stops accepting and lets open connections end (--drain-timeout).
Exit status: 0 after a shutdown, 1 if the relay cannot run, 2 for wrong flags.
Documentation: docs/LINK.md.";

/// Relay TCP connections over a simulated network path: delay, jitter, bandwidth, loss.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct LinkArgs {
    /// Listen address, HOST:PORT or :PORT; port 0 picks a free port
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8082")]
    listen: String,

    /// Server at the other end of the path, HOST:PORT, http://HOST:PORT or https://HOST:PORT; TLS passes through
    /// unchanged
    #[arg(long, value_name = "ADDR")]
    to: String,

    #[command(flatten)]
    pub(super) process: ProcessFlags,

    /// One-way delay in each direction; a new connection takes one round trip before its first byte
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = units::duration, help_heading = "Path")]
    delay: Duration,

    /// Variation of the delay, uniform from delay - jitter to delay + jitter for each segment; the order of bytes is
    /// kept
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = units::duration, help_heading = "Path")]
    jitter: Duration,

    /// Bandwidth from the subscriber to the Internet (see --side), shared by all connections, as in 1Mbit or 512kbit
    /// [default: unlimited]
    #[arg(long, value_name = "RATE", value_parser = units::bandwidth, help_heading = "Path")]
    up: Option<u64>,

    /// Bandwidth from the Internet to the subscriber (see --side), shared by all connections, as in 20Mbit
    /// [default: unlimited]
    #[arg(long, value_name = "RATE", value_parser = units::bandwidth, help_heading = "Path")]
    down: Option<u64>,

    /// End of the path at which the subscriber is: with client, --up limits what clients send; with server, what the
    /// server sends
    #[arg(long, value_name = "SIDE", default_value = "client", help_heading = "Path")]
    side: Side,

    /// Share of segments (1460 bytes) lost, as in 1%; a lost segment, and all data behind it on its connection, arrive
    /// a retransmission timeout later
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = units::share, help_heading = "Path")]
    loss: f64,

    /// Retransmission timeout of a lost segment, doubled each time that the same segment is lost again
    #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = units::duration, help_heading = "Path")]
    rto: Duration,

    /// Share of segments at which the path resets the connection, at both ends, as in 0.1%
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = units::share, help_heading = "Path")]
    reset: f64,

    /// Seed of jitter, losses and resets [default: random]
    #[arg(long, value_name = "N", value_parser = units::count, help_heading = "Path")]
    seed: Option<u64>,

    /// Time limit for open connections after SIGTERM; then they are reset
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = units::duration, help_heading = "Limits")]
    drain_timeout: Duration,
}

/// Whose line a path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Side {
    Client,
    Server,
}

impl LinkArgs {
    /// Checks the flags, except the address of the server.
    pub fn check(&self) -> Result<(), Failure> {
        self.path(vec![SocketAddr::from(([127, 0, 0, 1], 0))], 0, |_| ()).map(drop)
    }

    pub(super) fn link(&self, report_unreachable: fn(ConnectError)) -> Result<Link, Failure> {
        let seed = match self.seed {
            Some(seed) => seed,
            None => random_bits()? as u64,
        };
        self.path(self.servers()?, seed, report_unreachable)
    }

    fn path(&self, servers: Vec<SocketAddr>, seed: u64, report_unreachable: fn(ConnectError)) -> Result<Link, Failure> {
        let mut settings = Settings::to(servers);
        settings.delay = self.delay;
        settings.jitter = self.jitter;
        let (up, down) = match self.side {
            Side::Client => (Direction::ToServer, Direction::ToClient),
            Side::Server => (Direction::ToClient, Direction::ToServer),
        };
        for (direction, rate) in [(up, self.up), (down, self.down)] {
            settings.bandwidths[direction as usize] = rate.map(|bits_per_second| Bandwidth { bits_per_second });
        }
        settings.loss = self.loss;
        settings.retransmission_timeout = self.rto;
        settings.resets = self.reset;
        settings.seed = seed;
        settings.report_unreachable = report_unreachable;
        Link::new(settings).map_err(|error| locate(&error))
    }

    /// The listening address, printed with the scheme of the server's.
    pub(super) fn place(&self) -> Result<ListenPlace, Failure> {
        let is_secured = matches!(split_scheme(&self.to), Ok((true, _)));
        Ok(ListenPlace { address: resolve("--listen", &self.listen)?.into(), is_secured })
    }

    /// All addresses of the server: `localhost` often has two, and the server listens on one of them.
    fn servers(&self) -> Result<Vec<SocketAddr>, Failure> {
        let (_, address) = split_scheme_or(false, &self.to).map_err(|problem| {
            Failure::usage(format!("--to {}: {problem}; write http://ADDR, https://ADDR or ADDR", self.to))
        })?;
        resolve_all("--to", address)
    }

    /// A path to itself would fill the table of connections.
    pub(super) fn refuse_circle(&self, bound: &[ListenPlace]) -> Result<(), Failure> {
        let servers = self.servers()?;
        match bound.iter().filter_map(|place| place.address.tcp()).find(|address| servers.contains(address)) {
            Some(address) => {
                let message = format!("--to {address}: this is the address on which the link itself listens");
                Err(Failure::usage(message))
            }
            None => Ok(()),
        }
    }

    /// One thread, because all connections share the bandwidth.
    pub(super) fn driver_settings(&self) -> DriverSettings {
        DriverSettings {
            threads: 1,
            cpus: self.process.cpus(),
            send_timeout: SEND_TIMEOUT,
            stopping_timeout: self.drain_timeout,
            ..DriverSettings::default()
        }
    }
}

/// Names the flag of an invalid setting.
fn locate(error: &SettingsError) -> Failure {
    let flag = match error {
        SettingsError::NoServer => "--to",
        SettingsError::Jitter => "--jitter",
        SettingsError::Bandwidth => "--up or --down",
        SettingsError::Loss => "--loss",
        SettingsError::Resets => "--reset",
    };
    Failure::usage(format!("{flag}: {error}"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        args: LinkArgs,
    }

    fn parse(line: &str) -> LinkArgs {
        Cli::try_parse_from(format!("link --to 127.0.0.1:9 {line}").split_whitespace()).unwrap().args
    }

    #[test]
    fn up_is_away_from_the_subscriber() {
        let limits = |line: &str| {
            let link = parse(line).link(|_| ()).unwrap();
            link.settings().bandwidths.map(|bandwidth| bandwidth.map(|bandwidth| bandwidth.bits_per_second))
        };
        // First to the server, then to clients.
        assert_eq!(limits("--up 2Mbit --down 60Mbit"), [Some(2_000_000), Some(60_000_000)]);
        assert_eq!(limits("--side server --up 1Mbit --down 20Mbit"), [Some(20_000_000), Some(1_000_000)]);
        assert_eq!(limits("--down 1kbit"), [None, Some(1_000)]);
    }

    #[test]
    fn a_server_may_be_a_url() {
        let servers =
            |to: &str| LinkArgs { to: to.to_owned(), ..parse("") }.servers().map_err(|failure| failure.message);
        let address = SocketAddr::from(([127, 0, 0, 1], 80));
        for to in ["127.0.0.1:80", "http://127.0.0.1:80", "https://127.0.0.1:80/"] {
            assert_eq!(servers(to), Ok(vec![address]));
        }
        assert_eq!(servers("here.localhost:80"), Ok(vec![address, "[::1]:80".parse().unwrap()]));
        assert!(servers("ftp://127.0.0.1:80").unwrap_err().contains("the scheme must be http or https, not \"ftp\""));
        assert!(servers("127.0.0.1").unwrap_err().contains("the port is missing"));
        let is_secured = |to: &str| LinkArgs { to: to.to_owned(), ..parse("") }.place().unwrap().is_secured;
        assert_eq!([is_secured("https://127.0.0.1:80"), is_secured("127.0.0.1:80")], [true, false]);
    }

    #[test]
    fn a_fault_names_its_flag() {
        let problem = |line: &str| parse(line).check().unwrap_err().message;
        assert!(problem("--jitter 1ms").starts_with("--jitter: "));
        assert!(problem("--loss 100%").starts_with("--loss: "));
        assert!(problem("--reset 1").starts_with("--reset: "));
        let circle = LinkArgs { listen: "127.0.0.1:9".to_owned(), ..parse("") };
        assert!(circle.refuse_circle(&[circle.place().unwrap()]).is_err());
    }
}
