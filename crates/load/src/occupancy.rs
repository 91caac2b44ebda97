//! Where the users of a closed loop spend their time. Every instant of a user belongs to one activity, so that the
//! users at each of them add up to the users that there are (Little's law).

use breme_base::Instant;

/// What a user is waiting for, or doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activity {
    /// Its request was sent and has no complete response.
    Server,
    /// It wants to send a request and has no connection.
    Connecting,
    /// It could send, or its response is there, and the generator has not come to it.
    Generator,
    /// It thinks.
    Thinking,
}

/// Nanoseconds of all users together, by what they were spent on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Occupancy([u128; 4]);

impl Occupancy {
    #[inline]
    pub(crate) fn add(&mut self, activity: Activity, from: Instant, to: Instant) {
        self.0[activity as usize] += u128::from(to.nanos_since(from));
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, more)| *sum += more);
    }

    /// Users who were at it, on average over `elapsed_ns`.
    pub(crate) fn users(&self, activity: Activity, elapsed_ns: u64) -> f64 {
        if elapsed_ns == 0 { 0.0 } else { self.0[activity as usize] as f64 / elapsed_ns as f64 }
    }
}
