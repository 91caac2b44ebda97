//! Values generated or chosen at the start of a proxy, and constant afterwards.

use breme_command::failure::Failure;
use breme_command::server::{ListenPlace, random_bits, secured_listeners};
use breme_node::ListenerId;

#[derive(Clone, Debug)]
pub struct Secrets {
    /// The key of affinity cookies, unless a file has one.
    pub key: Vec<u8>,
    pub seed: u64,
    pub secured_listeners: Vec<ListenerId>,
}

impl Secrets {
    pub fn draw(places: &[ListenPlace]) -> Result<Self, Failure> {
        let key = [random_bits()?.to_ne_bytes(), random_bits()?.to_ne_bytes()].concat();
        Ok(Self { key, seed: random_bits()? as u64, secured_listeners: secured_listeners(places) })
    }
}
