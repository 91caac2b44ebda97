//! An action on a thread of its own.

use std::io;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

/// Runs an action whenever it is requested. Requests do not wait for it; those that come while it runs cause one more
/// run. The thread ends when this is dropped.
#[derive(Debug)]
pub(super) struct OnDemand(SyncSender<()>);

impl OnDemand {
    pub(super) fn start(thread_name: &str, mut action: impl FnMut() + Send + 'static) -> io::Result<Self> {
        let (sender, requests) = sync_channel(1);
        thread::Builder::new().name(thread_name.to_owned()).spawn(move || requests.iter().for_each(|()| action()))?;
        Ok(Self(sender))
    }

    pub(super) fn request(&self) {
        // If it is full, the next run is still to begin.
        let _ = self.0.try_send(());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn requests_do_not_wait_and_are_joined() {
        let (began, runs) = channel();
        let (resume, resumed) = channel();
        let on_demand = OnDemand::start("test", move || {
            began.send(()).unwrap();
            resumed.recv().unwrap();
        })
        .unwrap();
        on_demand.request();
        runs.recv().unwrap();
        for _ in 0..3 {
            on_demand.request();
        }
        drop(on_demand);
        (0..2).for_each(|_| resume.send(()).unwrap());
        assert_eq!(runs.iter().count(), 1, "one more");
    }
}
