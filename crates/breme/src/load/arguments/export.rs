//! Flags of the metrics of a running load.

use std::net::SocketAddr;

use crate::failure::Failure;
use crate::serving::AdminFlag;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Output")]
pub struct ExportFlags {
    #[command(flatten)]
    admin: AdminFlag,
}

impl ExportFlags {
    pub(crate) const fn has_admin(&self) -> bool {
        self.admin.is_set()
    }

    pub(crate) fn admin(&self) -> Result<Option<SocketAddr>, Failure> {
        self.admin.address()
    }
}
