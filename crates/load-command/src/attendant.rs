//! Attends a run from outside its threads: shows the progress on a terminal, and stops the run on signals and, if
//! requested, at the end of standard input.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use breme_base::{grouped, plural};
use breme_command::failure::Failure;
use breme_command::output::has_colours;
use breme_driver::Stopper;
use breme_load::{Progress, Run, duration_text, rate_text};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
use signal_hook::iterator::Signals;

use super::export::Export;
use super::feed::Times;
use super::stdin;
use super::view::View;

/// Polling interval. A signal waits at most this long; no measurement depends on it.
const GLANCE: Duration = Duration::from_millis(100);

/// The signal that ended the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interruption {
    signal: i32,
}

impl Interruption {
    /// As in shells.
    pub fn exit_code(self) -> u8 {
        128 + self.signal as u8
    }
}

/// The attending thread. If it is dropped without [`Attendant::finish`], it ends by itself.
pub struct Attendant {
    notices: Sender<Notice>,
    thread: Option<JoinHandle<Option<Interruption>>>,
}

/// A message to the thread.
enum Notice {
    RunEnded,
    InputEnded,
}

impl Attendant {
    /// `watches_input`: the end of standard input ends the run too.
    pub(super) fn start(
        run: Arc<Run>,
        stopper: Stopper,
        watched: Watched,
        watches_input: bool,
    ) -> Result<Self, Failure> {
        let (notices, received) = channel();
        // Before the view takes the terminal, which Ctrl-Z would not give back until then.
        let signals = Signals::new(caught(watched.progress))
            .map_err(|error| Failure::run(format!("cannot catch signals: {error}")))?;
        let display = Display::new(&run, watched.progress);
        let started = Instant::now();
        let watch = Watch {
            run,
            stopper,
            signals,
            display,
            intervals: watched.intervals,
            export: watched.export,
            started,
            has_been_stopped: false,
            has_seen_signal: false,
            interruption: None,
        };
        let cannot_start = |error| Failure::run(format!("cannot start a thread: {error}"));
        if watches_input {
            let notices = notices.clone();
            let notify_end = move || {
                stdin::wait_for_end();
                let _ = notices.send(Notice::InputEnded); // the run may be over
            };
            Builder::new().name("stdin".to_owned()).spawn(notify_end).map_err(cannot_start)?;
        }
        let thread =
            Builder::new().name("attendant".to_owned()).spawn(move || watch.run(&received)).map_err(cannot_start)?;
        Ok(Self { notices, thread: Some(thread) })
    }

    /// The run has ended: removes the progress, and returns what interrupted the run, if anything.
    pub fn finish(mut self) -> Option<Interruption> {
        let thread = self.thread.take();
        drop(self);
        thread?.join().ok().flatten()
    }
}

impl Drop for Attendant {
    fn drop(&mut self) {
        let _ = self.notices.send(Notice::RunEnded);
    }
}

/// The signals that end or suspend the run. Ctrl-\ and a closed terminal would end the process without a result and
/// leave the view on the terminal. Without the view they may have been ignored on purpose, as by `nohup`.
fn caught(progress: ShownProgress) -> &'static [i32] {
    const ALL: [i32; 5] = [SIGINT, SIGTERM, SIGTSTP, SIGQUIT, SIGHUP];
    if progress == ShownProgress::View { &ALL } else { &ALL[..3] }
}

/// What the thread shows and passes on.
pub(super) struct Watched {
    pub progress: ShownProgress,
    /// For the live view and the metrics, if enabled.
    pub intervals: Option<Receiver<Times>>,
    pub export: Option<Arc<Export>>,
}

/// The progress display selected by the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShownProgress {
    Nothing,
    Line,
    View,
}

impl ShownProgress {
    /// The display that the terminal supports.
    pub(super) fn new(is_quiet: bool, is_line: bool) -> Self {
        match (is_quiet || !std::io::stderr().is_terminal(), is_line || !View::is_possible()) {
            (true, _) => Self::Nothing,
            (false, true) => Self::Line,
            (false, false) => Self::View,
        }
    }
}

enum Display {
    Nothing,
    Line(ProgressBar),
    View(Box<View>),
}

impl Display {
    fn new(run: &Arc<Run>, progress: ShownProgress) -> Self {
        match progress {
            ShownProgress::Nothing => Self::Nothing,
            ShownProgress::Line => Self::Line(bar(run)),
            ShownProgress::View => match View::start(Arc::clone(run)) {
                Ok(view) => Self::View(Box::new(view)),
                Err(_) => Self::Line(bar(run)),
            },
        }
    }
}

struct Watch {
    run: Arc<Run>,
    stopper: Stopper,
    signals: Signals,
    display: Display,
    intervals: Option<Receiver<Times>>,
    export: Option<Arc<Export>>,
    started: Instant,
    has_been_stopped: bool,
    has_seen_signal: bool,
    interruption: Option<Interruption>,
}

impl Watch {
    fn run(mut self, notices: &Receiver<Notice>) -> Option<Interruption> {
        let mut last = (self.started, Progress::default());
        loop {
            match notices.recv_timeout(GLANCE) {
                Ok(Notice::InputEnded) => self.stop(),
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Notice::RunEnded) | Err(RecvTimeoutError::Disconnected) => break,
            }
            self.handle_signals();
            self.take_intervals();
            self.show(&mut last);
        }
        if let Display::Line(bar) = &self.display {
            bar.finish_and_clear();
        }
        self.interruption
    }

    /// The first signal requests the shards to end, a second one ends them at once. The first does not count as an
    /// interruption if the run has no other end.
    fn handle_signals(&mut self) {
        let is_regular = self.run.plan().settings().until_stopped;
        for signal in self.signals.pending() {
            if signal == SIGTSTP {
                self.suspend();
                continue;
            }
            let is_second = std::mem::replace(&mut self.has_seen_signal, true);
            if is_second || !is_regular {
                self.interruption.get_or_insert(Interruption { signal });
            }
            self.stop();
            if is_second {
                self.stopper.abort();
            }
        }
    }

    /// Leaves the terminal to the shell until it continues the process.
    fn suspend(&mut self) {
        if let Display::View(view) = &mut self.display {
            view.leave();
        }
        // A process that cannot be suspended continues.
        let _ = breme_sys::suspend_process();
    }

    fn stop(&mut self) {
        if !std::mem::replace(&mut self.has_been_stopped, true) {
            self.stopper.drain();
        }
    }

    /// At each poll, so that the queue stays short.
    fn take_intervals(&mut self) {
        for times in self.intervals.iter().flat_map(Receiver::try_iter) {
            if let Display::View(view) = &mut self.display {
                view.add_interval(&times);
            }
            if let Some(export) = &self.export {
                export.add_interval(&times);
            }
        }
        self.export.iter().for_each(|export| export.refresh());
    }

    fn show(&mut self, last: &mut (Instant, Progress)) {
        let bar = match &mut self.display {
            Display::Nothing => return,
            Display::View(view) => return view.refresh(Instant::now()),
            Display::Line(bar) => bar,
        };
        let (now, progress) = (Instant::now(), self.run.progress());
        let elapsed = now.duration_since(self.started);
        let settings = self.run.plan().settings();
        match settings.requests {
            Some(_) => bar.set_position(progress.answered + progress.errors),
            None => bar.set_position(elapsed.as_millis() as u64),
        }
        let since = now.duration_since(last.0).as_secs_f64();
        if since >= 0.5 {
            let rate = rate_text((progress.answered - last.1.answered) as f64 / since);
            let clock = |time: Duration| duration_text(time.as_nanos() as u64);
            let left = settings.duration.map(|duration| duration.saturating_sub(elapsed));
            let left = left.map_or_else(String::new, |left| format!(", {} left", clock(left)));
            let (open, errors) = (grouped(progress.open), plural(progress.errors, "error"));
            bar.set_message(format!("{}{left}  {rate} responses/s  {open} open  {errors}", clock(elapsed)));
            *last = (now, progress);
        }
    }
}

/// A bar of the time or of the requests.
fn bar(run: &Run) -> ProgressBar {
    let settings = run.plan().settings();
    let length = settings.requests.or(settings.duration.map(|duration| duration.as_millis() as u64));
    let bar = ProgressBar::with_draw_target(length, ProgressDrawTarget::stderr());
    let template = match length {
        None => "{msg}",
        Some(_) if !has_colours(&std::io::stderr()) => "{bar:30} {percent:>3} %  {msg}",
        Some(_) => "{bar:30.cyan/dim} {percent:>3} %  {msg}",
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("━━─"));
    }
    bar
}
