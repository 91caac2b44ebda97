//! The director: `breme proxy` in front of the nodes, which follows the route in the session's cookie.

use std::ffi::OsString;
use std::time::Duration;

use breme_cluster::layer::Cookies;
use breme_command::failure::Failure;
use breme_command::server::ListenPlace;
use rustix::process::Signal;
use tokio::sync::watch;
use tokio::time::sleep;

use super::super::arguments::SessionArgs;
use super::hangups::Hangups;
use super::node_place::NodePlace;
use super::program::{Program, cannot_start};

/// Pause before it is restarted.
const RESTART_PAUSE: Duration = Duration::from_millis(100);

/// A running director.
pub(super) struct Director {
    program: Program,
    arguments: Vec<OsString>,
    places: Vec<ListenPlace>,
}

impl Director {
    /// Starts it, and waits until it listens.
    pub(super) async fn start(args: &SessionArgs, nodes: &[NodePlace]) -> Result<Self, Failure> {
        let arguments = arguments(args, args.listen(), nodes);
        let fault = |why: &str| cannot_start("the director (breme proxy)", why);
        let mut program = Program::start(&arguments).map_err(|error| fault(&error.to_string()))?;
        let Some(printed) = program.printed(args.listen().len()).await else {
            return Err(fault(&program.wait().await));
        };
        // After a restart it listens at the same addresses.
        let listen: Vec<_> = printed.places.iter().map(ListenPlace::to_string).collect();
        let arguments = self::arguments(args, &listen, nodes);
        Ok(Self { program, arguments, places: printed.places })
    }

    pub(super) fn places(&self) -> &[ListenPlace] {
        &self.places
    }

    /// Restarts it when it exits, and passes SIGHUP on, until the cluster ends; then waits for its exit.
    pub(super) async fn keep(mut self, is_ending: watch::Receiver<bool>, mut hangups: Hangups) {
        loop {
            tokio::select! {
                () = is_true(is_ending.clone()) => break,
                () = hangups.next() => {
                    self.program.signal(Signal::HUP);
                    continue;
                }
                how = self.program.wait() => {
                    breme_base::error_line!("breme session: the director ended ({how}); restarting it");
                }
            }
            sleep(RESTART_PAUSE).await;
            match Program::start(&self.arguments) {
                Ok(program) => self.program = program,
                Err(error) => breme_base::error_line!(
                    "breme session: {}",
                    cannot_start("the director", &error.to_string()).message
                ),
            }
        }
        self.program.signal(Signal::TERM);
        self.program.wait().await;
    }
}

/// Waits for the signal.
pub(super) async fn is_true(mut signal: watch::Receiver<bool>) {
    // Without a sender the cluster has ended.
    let _ = signal.wait_for(|is_true| *is_true).await;
}

fn arguments(args: &SessionArgs, listen: &[String], nodes: &[NodePlace]) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = vec!["proxy".into()];
    let mut add = |flag: &str, value: OsString| arguments.extend([OsString::from(flag), value]);
    for address in listen {
        add("--listen", address.into());
    }
    for NodePlace { name, place, .. } in nodes {
        add("--upstream", format!("{place},route={name}").into());
    }
    // A frozen node keeps its connections open. It is removed after at most 3 s, when its lease (3 s) expires, so that
    // its requests reach nodes that may own its sessions. A page that does not exist is a response as well.
    for (flag, value) in [
        ("--health-path", "/"),
        ("--health-status", "200-499"),
        ("--health-interval", "500ms"),
        ("--health-timeout", "1200ms"),
        ("--health-fall", "2"),
        // While a node restarts, all requests for its sessions are failovers; health checks end that after a second.
        ("--retry-budget", "0"),
    ] {
        add(flag, value.into());
    }
    add("--affinity", format!("follow:{}", Cookies::name_of(args.has_secure_cookies())).into());
    if let Some(threads) = args.threads {
        add("--threads", threads.to_string().into());
    }
    for (flag, path) in [("--tls-cert", &args.tls.tls_cert), ("--tls-key", &args.tls.tls_key)] {
        path.iter().for_each(|path| add(flag, path.into()));
    }
    arguments.push("--health-abort".into());
    if args.tls.has_tls() {
        // The nodes are on this machine, at addresses that their certificate need not contain.
        arguments.push("--upstream-insecure".into());
    }
    if args.tls.tls_self_signed {
        arguments.push("--tls-self-signed".into());
    }
    arguments
}
