//! A shared HTTP cache (RFC 9111): what may be stored and for how long, what a stored response may answer, and the bounded store itself.
//!
//! Pure: the instant and the seed are arguments, and what waits is woken by its caller.
