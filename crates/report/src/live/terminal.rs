//! Terminal of the live views: raw mode and alternate screen, and their restoration.

use std::io::{self, IsTerminal, Stderr};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use ratatui::crossterm::{cursor, execute};
use ratatui::{Frame, Terminal};
use results::Record;

use super::{LiveState, render};

/// Width of the terminal in columns; absent without one.
pub fn terminal_columns() -> Option<usize> {
    ratatui::crossterm::terminal::size().ok().map(|(columns, _)| usize::from(columns)).filter(|columns| *columns > 0)
}

/// Whether a view uses the terminal, so that the panic hook restores it only then.
static IN_USE: AtomicBool = AtomicBool::new(false);

/// Maximum number of events in one poll: a key held down or many resizes must not stop the test.
const EVENTS_MAX: usize = 64;

/// Terminal on standard error in raw mode and alternate screen; restored at the end, on drop and on a panic.
#[derive(Debug)]
pub(crate) struct Screen(Terminal<CrosstermBackend<Stderr>>);

impl Screen {
    /// Takes the terminal.
    ///
    /// # Errors
    /// Standard error is no terminal (kind `Unsupported`), or the terminal refuses.
    pub(crate) fn take() -> io::Result<Self> {
        if !io::stderr().is_terminal() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "standard error is not a terminal"));
        }
        install_panic_hook();
        enable_raw_mode()?;
        IN_USE.store(true, Ordering::SeqCst);
        let terminal = execute!(io::stderr(), EnterAlternateScreen, cursor::Hide)
            .and_then(|()| Terminal::new(CrosstermBackend::new(io::stderr())));
        terminal.map(Self).inspect_err(|_| {
            let _ = restore();
        })
    }

    /// Whether colours are enabled: `NO_COLOR` (<https://no-color.org>).
    pub(crate) fn has_colour() -> bool {
        std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
    }

    /// Draws a frame in the current size of the terminal.
    pub(crate) fn draw(&mut self, render: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.0.draw(render).map(|_| ())
    }

    /// Whether the user pressed `q` or Ctrl-C (which raises no signal in raw mode) since the last call. Never waits.
    pub(crate) fn poll_quit() -> io::Result<bool> {
        for _ in 0..EVENTS_MAX {
            if !event::poll(Duration::ZERO)? {
                break;
            }
            if let Event::Key(key) = event::read()?
                && is_quit(key)
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Restores the terminal.
    pub(crate) fn finish(self) -> io::Result<()> {
        // Drop does the same, but cannot return an error.
        restore()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = restore();
    }
}

/// The live view of a test on the terminal behind standard error.
///
/// The alternate screen is used, so the view leaves no trace: print a summary after [`finish`](Self::finish).
#[derive(Debug)]
pub struct LiveView {
    screen: Screen,
    state: LiveState,
}

impl LiveView {
    /// Opens the view: raw mode, alternate screen. Colours follow `NO_COLOR` (<https://no-color.org>).
    ///
    /// # Errors
    /// Standard error is no terminal (kind `Unsupported`), or the terminal refuses.
    pub fn new() -> io::Result<Self> {
        Ok(Self { screen: Screen::take()?, state: LiveState::new(Screen::has_colour()) })
    }

    /// Adds a record without drawing.
    pub fn record(&mut self, record: &Record) {
        self.state.record(record);
    }

    /// Draws the current state, in the current size of the terminal.
    ///
    /// # Errors
    /// Errors of the terminal.
    pub fn draw(&mut self) -> io::Result<()> {
        self.screen.draw(|frame| render(frame, &self.state))
    }

    /// Whether the user pressed `q` or Ctrl-C (which raises no signal in raw mode) since the last call. Never waits.
    ///
    /// # Errors
    /// Errors of the terminal.
    pub fn poll_quit(&mut self) -> io::Result<bool> {
        Screen::poll_quit()
    }

    /// Restores the terminal.
    ///
    /// # Errors
    /// Errors of the terminal, which is then in an unknown state.
    pub fn finish(self) -> io::Result<()> {
        self.screen.finish()
    }
}

fn is_quit(key: KeyEvent) -> bool {
    let KeyCode::Char(c) = key.code else { return false };
    let wanted = if key.modifiers.contains(KeyModifiers::CONTROL) { 'c' } else { 'q' };
    key.kind != KeyEventKind::Release && c.eq_ignore_ascii_case(&wanted)
}

/// Leaves raw mode and the alternate screen, once.
fn restore() -> io::Result<()> {
    if !IN_USE.swap(false, Ordering::SeqCst) {
        return Ok(());
    }
    let screen = execute!(io::stderr(), LeaveAlternateScreen, cursor::Show);
    disable_raw_mode().and(screen)
}

/// Installs a panic hook that restores the terminal first.
fn install_panic_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let _ = restore();
            previous(info);
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn q_and_control_c_quit_and_nothing_else_does() {
        let key = |c, modifiers| is_quit(KeyEvent::new(KeyCode::Char(c), modifiers));
        assert!(key('q', KeyModifiers::NONE) && key('Q', KeyModifiers::SHIFT) && key('c', KeyModifiers::CONTROL));
        assert!(!key('c', KeyModifiers::NONE) && !key('x', KeyModifiers::NONE));
        assert!(!is_quit(KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE)));
    }
}
