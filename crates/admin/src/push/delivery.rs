//! Delivery to a receiver on a thread, so that no measurement waits for it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

/// Its thread could not be started.
#[derive(Debug, thiserror::Error)]
#[error("cannot start a thread: {0}")]
pub struct DeliveryError(#[source] io::Error);

/// The thread and its queue. Dropping it waits until the thread has handled what is queued; a pause of the thread
/// (`park_timeout`) ends then.
#[derive(Debug)]
pub struct Delivery<T> {
    sender: Option<SyncSender<T>>,
    thread: Option<JoinHandle<()>>,
    is_ending: Arc<AtomicBool>,
}

impl<T: Send + 'static> Delivery<T> {
    /// Starts a thread for a queue of at most `queue_max`. `deliver` also gets whether the command is ending.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(
        name: &str,
        queue_max: usize,
        deliver: impl FnOnce(&Receiver<T>, &AtomicBool) + Send + 'static,
    ) -> Result<Self, DeliveryError> {
        let (sender, receiver) = sync_channel(queue_max);
        let is_ending = Arc::new(AtomicBool::new(false));
        let ending = Arc::clone(&is_ending);
        let thread = Builder::new().name(name.to_owned()).spawn(move || deliver(&receiver, &ending));
        Ok(Self { sender: Some(sender), thread: Some(thread.map_err(DeliveryError)?), is_ending })
    }

    /// Returns whether there was room in the queue.
    pub fn queue(&self, item: T) -> bool {
        self.sender.as_ref().is_some_and(|sender| sender.try_send(item).is_ok())
    }
}

impl<T> Drop for Delivery<T> {
    fn drop(&mut self) {
        self.is_ending.store(true, Ordering::SeqCst);
        self.sender.take();
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}
