//! Tables of metrics: the name, the help text and the source of each value, once.

/// A value of a label, and what to read for it.
pub type LabelledValue<T> = (&'static str, fn(&T) -> u64);

#[derive(Clone, Copy, Debug)]
pub struct Metric<T: 'static> {
    pub kind: MetricKind,
    /// Without the program's prefix and the suffixes of unit and kind.
    pub name: &'static str,
    pub help: &'static str,
    /// Empty: one value without label.
    pub label: &'static str,
    pub values: &'static [LabelledValue<T>],
}

impl<T> Metric<T> {
    /// The values of the label with their counts.
    pub fn read(&self, counts: &T) -> impl Iterator<Item = (&'static str, u64)> {
        self.values.iter().map(|(label, read)| (*label, read(counts)))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    Counter,
    /// A counter of bytes.
    ByteCounter,
    Gauge,
    /// A gauge in bytes.
    ByteGauge,
}

/// Defines the counters of a server from one table.
///
/// A row is a metric family: kind, name, label if there is one, help text, and a field for each value of the label.
/// The macro defines the struct of one shard, with a [`Count`](crate::Count) for each field of `per_shard`; the struct
/// of all shards, with a `u64` for each field of `per_shard` and `elsewhere`; its `sum` over the shards; and its
/// `METRICS`. Both structs may have further fields.
///
/// ```
/// use breme_base::{Count, PerShard, counters};
///
/// counters! {
///     #[derive(Debug, Default)]
///     struct ShardCounts {}
///
///     #[derive(Debug, Default)]
///     pub struct Counts {}
///
///     per_shard {
///         Counter "hits" "Hits." { hits }
///         Counter "misses" by "reason" "Misses, by reason." { misses_new = "new", misses_expired = "expired" }
///     }
///     elsewhere {
///         Gauge "queue_length" "Requests in the queue." { queue_length }
///     }
/// }
///
/// let shards = PerShard::<ShardCounts>::default();
/// shards.add_shard().hits.add();
/// let counts = Counts { queue_length: 3, ..Counts::sum(&shards) };
/// let read: Vec<_> = Counts::METRICS.iter().flat_map(|metric| metric.read(&counts)).collect();
/// assert_eq!(read, [("", 1), ("new", 0), ("expired", 0), ("", 3)]);
/// ```
#[macro_export]
macro_rules! counters {
    (
        $(#[$shard_attribute:meta])*
        $shard_visibility:vis struct $shard:ident { $($shard_field:tt)* }

        $(#[$sum_attribute:meta])*
        $sum_visibility:vis struct $sum:ident { $($sum_field:tt)* }

        per_shard {$(
            $kind:ident $name:literal $(by $label:literal)? $help:literal {
                $($field:ident $(= $value:literal)?),+ $(,)?
            }
        )*}
        elsewhere {$(
            $other_kind:ident $other_name:literal $(by $other_label:literal)? $other_help:literal {
                $($other_field:ident $(= $other_value:literal)?),+ $(,)?
            }
        )*}
    ) => {
        $(#[$shard_attribute])*
        $shard_visibility struct $shard {
            $($shard_field)*
            $($(pub(crate) $field: $crate::Count,)+)*
        }

        $(#[$sum_attribute])*
        $sum_visibility struct $sum {
            $($sum_field)*
            $($(#[doc = concat!($help $(, " `", $value, "`")?)] pub $field: u64,)+)*
            $($(#[doc = concat!($other_help $(, " `", $other_value, "`")?)] pub $other_field: u64,)+)*
        }

        impl $sum {
            /// The metrics of these counters.
            pub const METRICS: &[$crate::Metric<Self>] = &[
                $($crate::Metric {
                    kind: $crate::MetricKind::$kind,
                    name: $name,
                    help: $help,
                    label: concat!("" $(, $label)?),
                    values: &[$((concat!("" $(, $value)?), |counts: &Self| counts.$field)),+],
                },)*
                $($crate::Metric {
                    kind: $crate::MetricKind::$other_kind,
                    name: $other_name,
                    help: $other_help,
                    label: concat!("" $(, $other_label)?),
                    values: &[$((concat!("" $(, $other_value)?), |counts: &Self| counts.$other_field)),+],
                },)*
            ];

            /// Sums the counters of the shards; the rest is 0.
            pub(crate) fn sum(shards: &$crate::PerShard<$shard>) -> Self {
                Self { $($($field: shards.sum(|shard| shard.$field.load()),)+)* ..Self::default() }
            }
        }
    };
}

/// The metrics of a struct that is not counted by shard: kind, name, help text, and how to read the value.
///
/// ```
/// use breme_base::{Metric, metrics};
///
/// struct Files { bytes: usize }
///
/// const METRICS: &[Metric<Files>] = metrics! {
///     ByteGauge "file_cache" "File contents cached in memory." => |files: &Files| files.bytes as u64;
/// };
/// assert!(METRICS[0].read(&Files { bytes: 7 }).eq([("", 7)]));
/// ```
#[macro_export]
macro_rules! metrics {
    ($($kind:ident $name:literal $help:literal => $read:expr;)*) => {
        &[$($crate::Metric {
            kind: $crate::MetricKind::$kind,
            name: $name,
            help: $help,
            label: "",
            values: &[("", $read)],
        },)*]
    };
}
