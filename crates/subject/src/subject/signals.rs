use thiserror::Error;

/// The signal that stops a program, unless the experiment names another.
pub(super) const STOP_SIGNAL: &str = "TERM";

/// The signals that an experiment may name.
const SIGNALS: [(&str, i32); 9] = {
    use signal_hook::consts as signal;
    [
        ("TERM", signal::SIGTERM),
        ("INT", signal::SIGINT),
        ("QUIT", signal::SIGQUIT),
        ("HUP", signal::SIGHUP),
        ("KILL", signal::SIGKILL),
        ("USR1", signal::SIGUSR1),
        ("USR2", signal::SIGUSR2),
        // Apache's graceful stop.
        ("WINCH", signal::SIGWINCH),
        ("ABRT", signal::SIGABRT),
    ]
};

/// A signal that an experiment may not name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("unknown stop signal {0:?}; known are {known}", known = SIGNALS.map(|(name, _)| name).join(", "))]
pub struct UnknownSignal(String);

/// `TERM`, `SIGTERM`, `term`.
pub(super) fn signal_by_name(name: &str) -> Result<i32, UnknownSignal> {
    let short = name.to_ascii_uppercase();
    let short = short.strip_prefix("SIG").unwrap_or(&short);
    let known = SIGNALS.iter().find(|(known, _)| *known == short);
    known.map(|(_, signal)| *signal).ok_or_else(|| UnknownSignal(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_names() {
        for name in ["TERM", "SIGTERM", "term"] {
            assert_eq!(signal_by_name(name), Ok(15));
        }
        assert_eq!(signal_by_name("QUIT"), Ok(3));
        assert!(signal_by_name("TRM").unwrap_err().to_string().contains("known are TERM, INT"));
    }
}
