//! What all shards of one site share.

use breme_base::WallClock;

use crate::counters::Counters;
use crate::file_cache::FileCache;
use crate::send::SharedLines;
use crate::settings::Settings;
use crate::visitors::Visitors;

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) files: Option<FileCache>,
    pub(crate) visitors: Option<Visitors>,
    pub(crate) counters: Counters,
    pub(crate) lines: SharedLines,
    pub(crate) clock: WallClock,
}
