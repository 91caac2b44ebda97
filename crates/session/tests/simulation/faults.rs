//! Faults: when they begin and end.

use std::time::Duration;

use breme_base::Random;
use breme_session::Input;

use crate::host::Host;
use crate::world::{Event, Inside, World};

#[derive(Clone, Copy, Debug)]
pub enum Fault {
    Kill(usize),
    Restart(usize),
    Freeze(usize),
    /// Freezes a node as soon as requests wait for each other in it.
    FreezeBusy {
        millis: u64,
        tries: u32,
    },
    Thaw(usize),
    /// A node loses or regains its connection to the engine.
    CutOff(usize, bool),
    /// Two nodes lose or regain their connection.
    Part(usize, usize, bool),
    EngineAway(bool),
    PowerLoss,
    /// A node hands its sessions over, and continues.
    Drain(usize),
    Leave(usize),
    /// The calendar of a node jumps, to so many hours ahead of the right time.
    SetCalendar(usize, i64),
}

/// Limit of the hours by which a calendar is wrong.
const CALENDAR_HOURS_MAX: i64 = 30;

impl World {
    pub fn plan_faults(&mut self) {
        let end = self.scenario.duration.as_millis() as u64;
        for _ in 0..self.scenario.faults {
            let at = self.random.between(1, end);
            if self.scenario.is_frosty {
                let millis = self.random.between(3_000, 8_000);
                self.agenda.after(Duration::from_millis(at), Event::Fault(Fault::FreezeBusy { millis, tries: 0 }));
                continue;
            }
            let lasts = if self.random.chance(0.5) { 200 + self.random.below(1_000) } else { self.random.below(8_000) };
            let node = self.random.below(self.hosts.len() as u64) as usize;
            let other = self.random.below(self.hosts.len() as u64) as usize;
            let (begin, end) = match self.random.below(8) {
                0 | 1 => (Fault::Kill(node), Fault::Restart(node)),
                2 | 3 => (Fault::Freeze(node), Fault::Thaw(node)),
                4 => (Fault::CutOff(node, true), Fault::CutOff(node, false)),
                5 => (Fault::Part(node, other, true), Fault::Part(node, other, false)),
                6 => (Fault::EngineAway(true), Fault::EngineAway(false)),
                _ if self.random.chance(0.5) => (Fault::PowerLoss, Fault::PowerLoss),
                _ if self.random.chance(0.5) => (Fault::Drain(node), Fault::Leave(node)),
                _ => (Fault::Leave(node), Fault::Restart(node)),
            };
            self.agenda.after(Duration::from_millis(at), Event::Fault(begin));
            self.agenda.after(Duration::from_millis(at + lasts), Event::Fault(end));
        }
    }

    /// Calendars are wrong from the start, and jump. The protocol does not notice, so nothing else depends on them.
    pub fn plan_calendars(&mut self, seed: u64) {
        let mut random = Random::stream(seed, 3);
        let end = self.scenario.duration.as_millis() as u64;
        for _ in 0..random.between(0, 4) {
            let node = random.below(self.hosts.len() as u64) as usize;
            let hours = random.below(2 * CALENDAR_HOURS_MAX as u64 + 1) as i64 - CALENDAR_HOURS_MAX;
            let at = if random.chance(0.3) { 0 } else { random.below(end) };
            self.agenda.after(Duration::from_millis(at), Event::Fault(Fault::SetCalendar(node, hours)));
        }
    }

    pub fn inflict(&mut self, fault: Fault) {
        match fault {
            Fault::Kill(node) => {
                let nonce = self.hosts[node].nonce;
                let has_died = self.hosts[node].machine.is_some();
                self.kill(node);
                if has_died && self.random.chance(0.6) {
                    self.report_exit(node, nonce);
                }
            }
            Fault::Restart(node) => {
                self.kill(node);
                self.start(node);
            }
            Fault::Freeze(node) => self.hosts[node].is_frozen = self.hosts[node].machine.is_some(),
            Fault::FreezeBusy { millis, tries } => self.freeze_busy(millis, tries),
            Fault::Thaw(node) => self.thaw(node),
            Fault::CutOff(node, is_cut_off) => self.hosts[node].is_cut_off = is_cut_off,
            Fault::Part(one, other, true) => {
                self.hosts[one].cut_off_from.insert(other);
            }
            Fault::Part(one, other, false) => {
                self.hosts[one].cut_off_from.remove(&other);
            }
            Fault::EngineAway(is_away) => self.is_engine_away = is_away,
            Fault::PowerLoss => self.engine.lose_power(),
            Fault::Drain(node) => self.input_now(node, Input::Drain),
            Fault::Leave(node) => self.input_now(node, Input::Leave),
            Fault::SetCalendar(node, hours) => self.hosts[node].calendar_ahead_ms = hours * 3_600_000,
        }
    }

    fn input_now(&mut self, node: usize, input: Input) {
        let process = self.hosts[node].process;
        self.agenda.after(Duration::ZERO, Event::Inside { node, process, what: Inside::Input(input) });
    }

    fn freeze_busy(&mut self, millis: u64, tries: u32) {
        const TRIES_MAX: u32 = 2_000;
        let is_busy = |host: &Host| !host.is_frozen && host.machine.is_some() && host.requests.len() > 1;
        if let Some(node) = self.hosts.iter().position(is_busy) {
            self.hosts[node].is_frozen = true;
            self.agenda.after(Duration::from_millis(millis), Event::Fault(Fault::Thaw(node)));
        } else if tries < TRIES_MAX {
            let again = Fault::FreezeBusy { millis, tries: tries + 1 };
            self.agenda.after(Duration::from_micros(500), Event::Fault(again));
        }
    }

    /// Its supervisor notifies all nodes.
    fn report_exit(&mut self, node: usize, nonce: u64) {
        let name = self.hosts[node].name;
        for other in 0..self.hosts.len() {
            let process = self.hosts[other].process;
            let delay = Duration::from_millis(1 + self.random.below(10));
            let what = Inside::Input(Input::Exited { node: name, nonce });
            self.agenda.after(delay, Event::Inside { node: other, process, what });
        }
    }

    /// Ends all faults.
    pub fn heal(&mut self) {
        self.is_engine_away = false;
        (self.scenario.late, self.scenario.lost, self.scenario.stale) = (0.0, 0.0, 0.0);
        for node in 0..self.hosts.len() {
            self.hosts[node].is_cut_off = false;
            self.hosts[node].cut_off_from.clear();
            self.thaw(node);
            let has_left = self.hosts[node].machine.as_ref().is_none_or(|machine| machine.incarnation().is_none());
            if has_left {
                self.kill(node);
                self.start(node);
            }
        }
    }
}
