//! The live view of a load: rate and response times over time, a histogram, statuses, errors.
//!
//! ```text
//!  shards ──► Run (counters) ─────────────── 5 times a second ──┐
//!     └─────► intervals, through a bounded queue (feed) ────────┴──► Model ──► draw ──► terminal
//! ```
//!
//! It runs on the attendant's thread. The cost for the generator's threads is the same as for a log: once per interval,
//! one of them copies the interval into the queue, and never waits.

mod draw;
mod model;
mod screen;

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use breme_command::output::is_dumb_terminal;
use breme_load::Run;
use model::Model;
use screen::Screen;

use super::feed::Times;

/// Interval at which it is drawn.
const REDRAW: Duration = Duration::from_millis(200);
/// The smallest terminal that has room for it.
const COLUMNS_MIN: u16 = 60;
const ROWS_MIN: u16 = 16;

pub(super) struct View {
    run: Arc<Run>,
    model: Model,
    screen: Screen,
    drawn_at: Option<Instant>,
}

impl View {
    /// Whether the terminal supports it: standard error is one, it can move its cursor, and it is large enough.
    pub(super) fn is_possible() -> bool {
        let size = terminal_size::terminal_size_of(io::stderr());
        let is_large = size.is_some_and(|(width, height)| width.0 >= COLUMNS_MIN && height.0 >= ROWS_MIN);
        is_large && !is_dumb_terminal()
    }

    pub(super) fn start(run: Arc<Run>) -> io::Result<Self> {
        let model = Model::new(&run);
        Ok(Self { run, model, screen: Screen::enter()?, drawn_at: None })
    }

    pub(super) fn add_interval(&mut self, times: &Times) {
        self.model.add_interval(times);
    }

    /// Restores the terminal, until the next refresh of a process that has it.
    pub(super) fn leave(&mut self) {
        self.screen.leave();
        self.drawn_at = None;
    }

    /// Draws, if it is due.
    pub(super) fn refresh(&mut self, now: Instant) {
        if self.drawn_at.is_some_and(|drawn_at| now.duration_since(drawn_at) < REDRAW) {
            return;
        }
        self.drawn_at = Some(now);
        self.model.set_progress(now, &self.run);
        // A closed terminal shows nothing; the run continues.
        let _ = self.screen.draw(|frame| draw::draw(&self.model, frame));
    }
}
