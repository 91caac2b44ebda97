//! The terminal during the view: the alternate screen, without a cursor. It is always restored, also when a thread
//! panics, so that the message is visible.

use std::io::{self, Stderr, stderr};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen};
use ratatui::{Frame, Terminal};

static IS_SHOWN: AtomicBool = AtomicBool::new(false);

pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<Stderr>>,
}

impl Screen {
    pub(super) fn enter() -> io::Result<Self> {
        restore_on_panic();
        let terminal = Terminal::new(CrosstermBackend::new(stderr()))?;
        IS_SHOWN.store(true, Ordering::SeqCst);
        let screen = Self { terminal }; // from here on it is restored
        // The terminal's `clear` would query the cursor position and wait for the response.
        execute!(stderr(), EnterAlternateScreen, Clear(ClearType::All), Hide)?;
        Ok(screen)
    }

    /// Draws in the current size of the terminal.
    pub(super) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        if IS_SHOWN.load(Ordering::SeqCst) {
            self.terminal.draw(draw)?;
        }
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Restores the former content of the terminal.
fn restore() {
    if IS_SHOWN.swap(false, Ordering::SeqCst) {
        let _ = execute!(stderr(), LeaveAlternateScreen, Show); // nothing can be done without a terminal
    }
}

fn restore_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            restore();
            report(panic);
        }));
    });
}
