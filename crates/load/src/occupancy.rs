//! Where the users of a closed loop spend their time. Every instant of a user belongs to one activity, so the numbers
//! of users in all activities add up to the number of users (Little's law).

use breme_base::Instant;

use crate::merge::Merge;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activity {
    /// Its request was sent and has no complete response.
    Server,
    /// It has a request to send and no connection.
    Connecting,
    /// It could send, or its response has arrived, and the generator has not processed it yet.
    Generator,
    Thinking,
}

/// Nanoseconds of all users together, by activity.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Occupancy([u128; 4]);

impl Merge for Occupancy {
    fn merge(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, more)| *sum += more);
    }
}

impl Occupancy {
    #[inline]
    pub(crate) fn add(&mut self, activity: Activity, from: Instant, to: Instant) {
        self.0[activity as usize] += u128::from(to.nanos_since(from));
    }

    /// Mean number of users in it over `elapsed_ns`.
    pub(crate) fn users(&self, activity: Activity, elapsed_ns: u64) -> f64 {
        if elapsed_ns == 0 { 0.0 } else { self.0[activity as usize] as f64 / elapsed_ns as f64 }
    }
}
