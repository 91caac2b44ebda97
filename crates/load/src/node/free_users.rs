//! The users of an open loop that may take an arrival.

use std::collections::VecDeque;

use crate::user::{Listed, User};

/// The free users of a shard, in the order in which they take arrivals: those with nothing outstanding before those
/// with room for more, and of each the one that has been free longest.
///
/// An entry is valid only if its user is marked as listed there.
#[derive(Debug, Default)]
pub(super) struct FreeUsers {
    idle: VecDeque<u32>,
    busy: VecDeque<u32>,
}

impl FreeUsers {
    /// Includes entries that are no longer valid.
    pub(super) fn count(&self) -> usize {
        self.idle.len() + self.busy.len()
    }

    /// Adds a user that may take an arrival, unless it is listed already.
    pub(super) fn add(&mut self, index: u32, users: &mut [User]) {
        let user_count = users.len();
        let user = &mut users[index as usize];
        let listed = if user.window.is_empty() { Listed::Idle } else { Listed::Busy };
        if user.listed == listed {
            return;
        }
        user.listed = listed;
        match listed {
            Listed::Idle => self.idle.push_back(index),
            _ => self.busy.push_back(index),
        }
        // A user that became idle leaves an invalid entry in the busy list, which is bounded here.
        if self.busy.len() > 2 * user_count {
            self.busy.retain(|&index| users[index as usize].listed == Listed::Busy);
        }
    }

    /// The user whose turn it is.
    pub(super) fn first(&mut self, users: &[User]) -> Option<u32> {
        first_valid(&mut self.idle, Listed::Idle, users).or_else(|| first_valid(&mut self.busy, Listed::Busy, users))
    }

    /// Removes the user that [`first`](Self::first) has returned.
    pub(super) fn remove_first(&mut self, index: u32, users: &mut [User]) {
        let listed = std::mem::take(&mut users[index as usize].listed);
        let list = if listed == Listed::Idle { &mut self.idle } else { &mut self.busy };
        list.pop_front();
    }
}

/// Removes the invalid entries before it.
fn first_valid(list: &mut VecDeque<u32>, listed: Listed, users: &[User]) -> Option<u32> {
    while let Some(&index) = list.front() {
        if users[index as usize].listed == listed {
            return Some(index);
        }
        list.pop_front();
    }
    None
}
