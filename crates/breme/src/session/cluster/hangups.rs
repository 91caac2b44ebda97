//! SIGHUP, which each process that shows a certificate to clients must get.

use breme_command::failure::Failure;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::super::arguments::SessionArgs;

/// Signals since the last look; several may count as one. Copies get the same signals.
#[derive(Clone)]
pub(super) struct Hangups(watch::Receiver<()>);

impl Hangups {
    /// Those that arrive from now on; none if there is nothing to reload, and the signal ends this process as usual.
    pub(super) fn catch(args: &SessionArgs) -> Result<Self, Failure> {
        let (sender, receiver) = watch::channel(());
        if args.has_reloads() {
            let hangups = signal(SignalKind::hangup());
            let mut hangups = hangups.map_err(|error| Failure::run(format!("cannot catch signals: {error}")))?;
            tokio::spawn(async move { while hangups.recv().await.is_some() && sender.send(()).is_ok() {} });
        }
        Ok(Self(receiver))
    }

    /// Waits for the next one.
    pub(super) async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
