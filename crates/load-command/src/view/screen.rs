//! The terminal during the view: the alternate screen, without a cursor. It is always restored: also when a thread
//! panics, so that the message is visible, and while the process is suspended.

use std::io::{self, Stderr, stderr};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen};
use ratatui::{Frame, Terminal};
use rustix::process::getpgrp;
use rustix::termios::tcgetpgrp;

static IS_SHOWN: AtomicBool = AtomicBool::new(false);

type AlternateScreen = Terminal<CrosstermBackend<Stderr>>;

pub(super) struct Screen {
    terminal: AlternateScreen,
    /// Restored until the process has the terminal again.
    is_left: bool,
}

impl Screen {
    pub(super) fn enter() -> io::Result<Self> {
        restore_on_panic();
        Ok(Self { terminal: enter()?, is_left: false })
    }

    /// Restores the terminal until the next [`draw`](Self::draw) of a process that has it.
    pub(super) fn leave(&mut self) {
        restore();
        self.is_left = true;
    }

    /// Draws in the current size of the terminal.
    pub(super) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        if self.is_left && !is_in_background() {
            self.terminal = enter()?;
            self.is_left = false;
        }
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

fn enter() -> io::Result<AlternateScreen> {
    let terminal = Terminal::new(CrosstermBackend::new(stderr()))?;
    IS_SHOWN.store(true, Ordering::SeqCst);
    // The terminal's `clear` would query the cursor position and wait for the response.
    execute!(stderr(), EnterAlternateScreen, Clear(ClearType::All), Hide).inspect_err(|_| restore())?;
    Ok(terminal)
}

/// Whether a shell has given the terminal to another process group.
fn is_in_background() -> bool {
    matches!(tcgetpgrp(stderr()), Ok(group) if group != getpgrp())
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
