//! `--driver`: a particular driver, or the best available.

use std::fmt;
use std::str::FromStr;
use std::sync::Once;

use breme_driver::{DriverKind, UringUnavailable, probe_uring};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriverChoice {
    /// `uring` if the kernel supports it, or else `events`, with a line that gives the reason.
    Auto,
    /// This one, or an error if it is unavailable.
    Named(DriverKind),
}

impl DriverChoice {
    /// The driver to start. A fallback is reported on standard error, since it changes what is measured.
    pub fn resolve(self, command: &str) -> DriverKind {
        match self {
            Self::Named(kind) => kind,
            Self::Auto => match probe_uring() {
                Ok(()) => DriverKind::Uring,
                Err(lack) => {
                    breme_base::error_line!("breme {command}: using the driver events: {lack}");
                    DriverKind::Events
                }
            },
        }
    }

    /// For [`DriverSettings::events_fallback`](breme_driver::DriverSettings::events_fallback): rings can fail only when
    /// they are created.
    pub fn events_fallback(self) -> Option<fn(&UringUnavailable)> {
        (self == Self::Auto).then_some(report_fallback as fn(&UringUnavailable))
    }

    pub(crate) fn is_threads(self) -> bool {
        self == Self::Named(DriverKind::Threads)
    }
}

/// Once, although a command may start a driver for each of its intervals.
fn report_fallback(lack: &UringUnavailable) {
    static REPORTED: Once = Once::new();
    REPORTED.call_once(|| breme_base::error_line!("breme: using the driver events: {lack}"));
}

impl fmt::Display for DriverChoice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => formatter.pad("auto"),
            Self::Named(kind) => kind.fmt(formatter),
        }
    }
}

impl FromStr for DriverChoice {
    type Err = UnknownDriver;

    fn from_str(name: &str) -> Result<Self, UnknownDriver> {
        match name {
            "auto" => Ok(Self::Auto),
            _ => name.parse().map(Self::Named).map_err(UnknownDriver),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}, or let `auto` choose")]
pub struct UnknownDriver(breme_driver::UnknownDriver);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_auto_falls_back() {
        assert!(DriverChoice::Auto.events_fallback().is_some());
        assert!(DriverChoice::Named(DriverKind::Uring).events_fallback().is_none());
    }

    #[test]
    fn a_choice_is_read_as_it_is_written() {
        let kinds = [DriverKind::Threads, DriverKind::Events, DriverKind::Uring].map(DriverChoice::Named);
        for choice in kinds.into_iter().chain([DriverChoice::Auto]) {
            assert_eq!(choice.to_string().parse(), Ok(choice));
        }
        let message = "fibers".parse::<DriverChoice>().unwrap_err().to_string();
        assert!(message.contains("`fibers`") && message.contains("`auto`"), "{message}");
    }
}
