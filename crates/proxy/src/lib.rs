//! The proxy as a node: forward and reverse, on every driver.

mod settings;

pub use settings::{ClientLimits, ForwardRules, HostRule, Identity, Mode, Pool, Settings, Times};
