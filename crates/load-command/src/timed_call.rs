//! Blocking calls with a time limit, such as the resolution of a name.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Makes blocking calls on a thread that is abandoned when the time is over. Only one runs at a time: the next call
/// first waits for the end of an abandoned one.
#[derive(Debug)]
pub struct TimedCall<T> {
    abandoned: Mutex<Option<Receiver<T>>>,
}

impl<T> Default for TimedCall<T> {
    fn default() -> Self {
        Self { abandoned: Mutex::new(None) }
    }
}

impl<T: Send + 'static> TimedCall<T> {
    /// The result of `call`; none if it is not known `within` this time.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn make(&self, within: Duration, call: impl FnOnce() -> T + Send + 'static) -> io::Result<Option<T>> {
        let begun = Instant::now();
        let mut abandoned = self.abandoned.lock();
        // Its result may be old.
        if let Some(result) = &*abandoned
            && result.recv_timeout(within).err() == Some(RecvTimeoutError::Timeout)
        {
            return Ok(None);
        }
        *abandoned = None;
        let (sender, result) = sync_channel(1);
        let run = move || {
            let _ = sender.send(call()); // fails if the owner is gone
        };
        Builder::new().name("timed-call".to_owned()).spawn(run)?;
        match result.recv_timeout(within.saturating_sub(begun.elapsed())) {
            Ok(value) => Ok(Some(value)),
            Err(RecvTimeoutError::Timeout) => {
                *abandoned = Some(result);
                Ok(None)
            }
            Err(RecvTimeoutError::Disconnected) => Ok(None), // it panicked
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    #[test]
    fn a_call_waits_for_the_end_of_an_abandoned_one() {
        let call = TimedCall::default();
        let (release, released) = channel::<()>();
        let hanging = move || {
            let _ = released.recv();
            1
        };
        assert_eq!(call.make(Duration::ZERO, hanging).unwrap(), None);
        assert_eq!(call.make(Duration::ZERO, || 2).unwrap(), None, "the first one has not ended");
        drop(release);
        assert_eq!(call.make(PATIENCE, || 3).unwrap(), Some(3), "not the old result");
        assert_eq!(call.make(PATIENCE, || 4).unwrap(), Some(4));
    }
}
