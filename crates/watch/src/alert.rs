//! The latest alerts of a watch, which outlive it, so that the next one sends what was not delivered.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::objective::AlertEvent;

/// What an alert is about. The latest one of each kind counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AlertKind {
    Availability,
    BurnRate,
}

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

impl AlertEvent {
    #[must_use]
    pub const fn kind(&self) -> AlertKind {
        match self {
            Self::Down { .. } | Self::Up => AlertKind::Availability,
            Self::BurnRateHigh { .. } | Self::BurnRateNormal => AlertKind::BurnRate,
        }
    }
}
