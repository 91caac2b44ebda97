//! Adds up what the shards of a run count.

use breme_stats::Histogram;

pub(crate) trait Merge {
    fn merge(&mut self, other: &Self);
}

/// Structs whose fields are merged one by one.
macro_rules! tallies {
    ($($(#[$about:meta])* struct $name:ident { $($(#[$meaning:meta])* $field:ident: $type:ty,)* })*) => {$(
        $(#[$about])*
        #[derive(Clone, Debug, Default)]
        pub(crate) struct $name {
            $($(#[$meaning])* pub $field: $type,)*
        }

        impl Merge for $name {
            fn merge(&mut self, other: &Self) {
                $(Merge::merge(&mut self.$field, &other.$field);)*
            }
        }
    )*};
}
pub(crate) use tallies;

impl Merge for u64 {
    fn merge(&mut self, other: &Self) {
        *self += other;
    }
}

impl<const N: usize> Merge for [u64; N] {
    fn merge(&mut self, other: &Self) {
        self.iter_mut().zip(other).for_each(|(sum, more)| *sum += more);
    }
}

impl<T: Merge> Merge for Vec<T> {
    fn merge(&mut self, other: &Self) {
        self.iter_mut().zip(other).for_each(|(sum, more)| sum.merge(more));
    }
}

impl Merge for Histogram {
    fn merge(&mut self, other: &Self) {
        Self::merge(self, other);
    }
}
