//! Watches over a run from outside its threads: shows the progress on a terminal and turns signals into a stop.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use breme_driver::Stopper;
use breme_load::{Progress, Run, duration_text};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::Failure;

/// How often it looks. A signal waits at most this long; nothing that is measured depends on it.
const GLANCE: Duration = Duration::from_millis(100);

/// What the user ended the run with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interruption {
    signal: i32,
}

impl Interruption {
    /// As shells have it.
    pub fn exit_code(self) -> u8 {
        128 + self.signal as u8
    }
}

/// The thread that watches. Dropping it without [`Attendant::finish`] lets it end by itself.
pub struct Attendant {
    ended: Sender<()>,
    thread: JoinHandle<Option<Interruption>>,
}

impl Attendant {
    pub(super) fn start(run: Arc<Run>, stopper: Stopper, quiet: bool) -> Result<Self, Failure> {
        let signals =
            Signals::new([SIGINT, SIGTERM]).map_err(|error| Failure::run(format!("cannot catch signals: {error}")))?;
        let (ended, end) = channel();
        let bar = if quiet { None } else { bar(&run) };
        let watch = Watch { run, stopper, signals, bar, started: Instant::now(), interruption: None };
        let thread = std::thread::Builder::new()
            .name("attendant".to_owned())
            .spawn(move || watch.run(&end))
            .map_err(|error| Failure::run(format!("cannot start a thread: {error}")))?;
        Ok(Self { ended, thread })
    }

    /// The run has ended: takes the progress away, and tells what interrupted the run, if anything did.
    pub fn finish(self) -> Option<Interruption> {
        drop(self.ended);
        self.thread.join().ok().flatten()
    }
}

struct Watch {
    run: Arc<Run>,
    stopper: Stopper,
    signals: Signals,
    bar: Option<ProgressBar>,
    started: Instant,
    interruption: Option<Interruption>,
}

impl Watch {
    fn run(mut self, end: &Receiver<()>) -> Option<Interruption> {
        let mut last = (self.started, Progress::default());
        while end.recv_timeout(GLANCE) == Err(RecvTimeoutError::Timeout) {
            self.heed_signals();
            self.show(&mut last);
        }
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        self.interruption
    }

    /// The first asks the shards to end, a second one ends them at once.
    fn heed_signals(&mut self) {
        for signal in self.signals.pending() {
            match self.interruption {
                None => self.stopper.drain(),
                Some(_) => self.stopper.abort(),
            }
            self.interruption.get_or_insert(Interruption { signal });
        }
    }

    fn show(&self, last: &mut (Instant, Progress)) {
        let Some(bar) = &self.bar else { return };
        let (now, progress) = (Instant::now(), self.run.progress());
        let elapsed = now.duration_since(self.started);
        let settings = self.run.plan().settings();
        match settings.requests {
            Some(_) => bar.set_position(progress.answered + progress.errors),
            None => bar.set_position(elapsed.as_millis() as u64),
        }
        let since = now.duration_since(last.0).as_secs_f64();
        if since >= 0.5 {
            let rate = (progress.answered - last.1.answered) as f64 / since;
            let elapsed = duration_text(elapsed.as_nanos() as u64);
            bar.set_message(format!(
                "{elapsed}  {rate:.0} answers/s  {} open  {} errors",
                progress.open, progress.errors
            ));
            *last = (now, progress);
        }
    }
}

/// A bar of the time or of the requests; none if standard error is no terminal.
fn bar(run: &Run) -> Option<ProgressBar> {
    if !std::io::stderr().is_terminal() {
        return None;
    }
    let settings = run.plan().settings();
    let length = settings.requests.or(settings.duration.map(|duration| duration.as_millis() as u64));
    let bar = ProgressBar::with_draw_target(length, ProgressDrawTarget::stderr());
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let template = if plain { "{bar:30} {percent:>3} %  {msg}" } else { "{bar:30.cyan/dim} {percent:>3} %  {msg}" };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("━━─"));
    }
    Some(bar)
}
