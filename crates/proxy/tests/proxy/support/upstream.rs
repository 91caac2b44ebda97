//! An upstream with a script per connection.

use std::collections::HashMap;
use std::time::Duration;

use breme_base::{Instant, Timers};
use breme_node::{Accepted, Actions, Close, CloseReason, ConnectionId, Node, Received};

/// The script of one connection.
#[derive(Clone, Debug, Default)]
pub struct Acts {
    acts: Vec<Act>,
}

#[derive(Clone, Debug)]
enum Act {
    Expect(Vec<u8>),
    Send(Vec<u8>),
    Wait(Duration),
    /// As `Wait`, and nothing may be received meanwhile.
    Quiet(Duration),
    Finish,
    Close(Close),
    Pause,
    Resume,
    /// The peer half-closes, or the connection ends.
    ExpectEnd,
    /// Any data is accepted from here on.
    Anything,
}

impl Acts {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn expect(self, bytes: impl AsRef<[u8]>) -> Self {
        self.then(Act::Expect(bytes.as_ref().to_vec()))
    }

    pub fn send(self, bytes: impl AsRef<[u8]>) -> Self {
        self.then(Act::Send(bytes.as_ref().to_vec()))
    }

    pub fn wait(self, time: Duration) -> Self {
        self.then(Act::Wait(time))
    }

    pub fn quiet(self, time: Duration) -> Self {
        self.then(Act::Quiet(time))
    }

    pub fn finish(self) -> Self {
        self.then(Act::Finish)
    }

    pub fn close(self, how: Close) -> Self {
        self.then(Act::Close(how))
    }

    pub fn pause(self) -> Self {
        self.then(Act::Pause)
    }

    pub fn resume(self) -> Self {
        self.then(Act::Resume)
    }

    pub fn expect_end(self) -> Self {
        self.then(Act::ExpectEnd)
    }

    pub fn anything(self) -> Self {
        self.then(Act::Anything)
    }

    fn then(mut self, act: Act) -> Self {
        self.acts.push(act);
        self
    }
}

#[derive(Debug)]
pub struct ScriptedUpstream {
    scripts: Vec<Acts>,
    next: usize,
    lines: HashMap<ConnectionId, Line>,
    timers: Timers,
    failures: Vec<String>,
}

#[derive(Debug)]
struct Line {
    number: usize,
    acts: Vec<Act>,
    /// Of the current act.
    matched: usize,
    due: Option<Instant>,
    ended: bool,
    is_closed: bool,
}

impl ScriptedUpstream {
    pub fn new(scripts: Vec<Acts>) -> Self {
        Self { scripts, next: 0, lines: HashMap::new(), timers: Timers::new(), failures: Vec::new() }
    }

    /// Deviations from the script, after the run.
    pub fn failures(&self) -> Vec<String> {
        let mut failures = self.failures.clone();
        if self.next < self.scripts.len() {
            failures.push(format!("{} connections came, {} were written down", self.next, self.scripts.len()));
        }
        let left =
            self.lines.values().filter(|line| !matches!(line.acts[..], [] | [Act::Anything | Act::ExpectEnd, ..]));
        failures.extend(left.map(|line| format!("connection {}: {:?} never came", line.number, line.acts)));
        failures
    }

    /// Performs all acts that are possible. Returns the number of bytes taken.
    fn advance(&mut self, now: Instant, id: ConnectionId, input: &[u8], actions: &mut Actions) -> usize {
        let Some(line) = self.lines.get_mut(&id) else { return input.len() };
        let mut taken = 0;
        while !line.is_closed {
            let rest = &input[taken..];
            let Some(act) = line.acts.first() else {
                if !rest.is_empty() {
                    let unexpected = rest.escape_ascii();
                    self.failures.push(format!("connection {}: nothing was to come, but {unexpected}", line.number));
                }
                return input.len();
            };
            match act {
                Act::Expect(bytes) => {
                    let due = &bytes[line.matched..];
                    let count = due.len().min(rest.len());
                    if due[..count] != rest[..count] {
                        let (due, rest) = (due.escape_ascii(), rest.escape_ascii());
                        self.failures.push(format!("connection {}: {due} was to come, but {rest}", line.number));
                        line.acts = vec![Act::Anything];
                        continue;
                    }
                    taken += count;
                    line.matched += count;
                    if line.matched < bytes.len() {
                        if line.ended {
                            self.failures.push(format!("connection {}: it ended before {act:?}", line.number));
                            line.acts = vec![Act::Anything];
                        }
                        return taken;
                    }
                    line.matched = 0;
                }
                Act::Send(bytes) => actions.send(id).extend_from_slice(bytes),
                Act::Quiet(_) if !rest.is_empty() => {
                    let rest = rest.escape_ascii();
                    self.failures.push(format!("connection {}: nothing was to come yet, but {rest}", line.number));
                    line.acts = vec![Act::Anything];
                    continue;
                }
                Act::Wait(time) | Act::Quiet(time) => {
                    let due = *line.due.get_or_insert(now + *time);
                    if due > now {
                        self.timers.set(id.key(), due);
                        return taken;
                    }
                    line.due = None;
                }
                Act::Finish => actions.finish(id),
                Act::Close(how) => {
                    line.is_closed = true;
                    actions.close(id, *how);
                }
                Act::Pause => actions.pause(id),
                Act::Resume => actions.resume(id),
                Act::ExpectEnd if !line.ended => {
                    if !rest.is_empty() {
                        let rest = rest.escape_ascii();
                        self.failures.push(format!("connection {}: the end was to come, but {rest}", line.number));
                        line.acts = vec![Act::Anything];
                    }
                    return input.len();
                }
                Act::ExpectEnd => {
                    line.is_closed = true;
                    actions.close(id, Close::Graceful);
                }
                Act::Anything => {
                    if line.ended {
                        line.is_closed = true;
                        actions.close(id, Close::Graceful);
                    }
                    return input.len();
                }
            }
            line.acts.remove(0);
        }
        input.len()
    }
}

impl Node for ScriptedUpstream {
    fn handle_accepted(&mut self, now: Instant, id: ConnectionId, _accepted: Accepted, actions: &mut Actions) {
        let number = self.next;
        self.next += 1;
        let acts = match self.scripts.get(number) {
            Some(script) => script.acts.clone(),
            None => {
                self.failures.push(format!("connection {number} was not to come"));
                vec![Act::Anything]
            }
        };
        self.lines.insert(id, Line { number, acts, matched: 0, due: None, ended: false, is_closed: false });
        self.advance(now, id, b"", actions);
    }

    fn handle_received(
        &mut self,
        now: Instant,
        id: ConnectionId,
        received: Received<'_>,
        actions: &mut Actions,
    ) -> usize {
        if let Some(line) = self.lines.get_mut(&id) {
            line.ended |= received.ended;
        }
        let taken = self.advance(now, id, received.bytes, actions);
        if let Some(line) = self.lines.get_mut(&id)
            && line.ended
            && line.acts.is_empty()
            && !std::mem::replace(&mut line.is_closed, true)
        {
            actions.close(id, Close::Graceful);
        }
        taken
    }

    fn handle_closed(&mut self, _now: Instant, id: ConnectionId, _reason: CloseReason, _actions: &mut Actions) {
        self.timers.clear(id.key());
        if let Some(line) = self.lines.remove(&id)
            && !line.is_closed
            && !matches!(line.acts[..], [] | [Act::Anything | Act::ExpectEnd, ..])
        {
            self.failures.push(format!("connection {} is gone before {:?}", line.number, line.acts));
        }
    }

    fn handle_deadline(&mut self, now: Instant, actions: &mut Actions) {
        while let Some(key) = self.timers.pop_due(now) {
            let id = self.lines.keys().copied().find(|id| id.key() == key);
            if let Some(id) = id {
                self.advance(now, id, b"", actions);
                // Data received meanwhile waits in the driver.
                actions.resume(id);
            }
        }
    }

    fn handle_stopping(&mut self, _now: Instant, actions: &mut Actions) {
        for (&id, line) in &mut self.lines {
            if !std::mem::replace(&mut line.is_closed, true) {
                actions.close(id, Close::Abort);
            }
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.timers.next()
    }
}
