//! The latest alerts of a watch, which outlive it, so that the next one sends what was not delivered.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::objective::AlertKind;

/// The latest alert of a target and kind.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LatestAlert {
    pub target: String,
    pub kind: AlertKind,
    /// Whether it says that something is wrong.
    pub is_bad: bool,
    pub is_delivered: bool,
    /// Its message.
    pub alert: Value,
}
