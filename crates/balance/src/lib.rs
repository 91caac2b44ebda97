//! Which upstream a request goes to: policies, affinity, health.
//!
//! Pure: the instant and the random number are arguments.
