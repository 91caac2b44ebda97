//! Flags of the metrics of a running load.

#[cfg(target_os = "linux")]
use std::path::PathBuf;

#[cfg(target_os = "linux")]
use breme_admin::push::Receiver;
#[cfg(target_os = "linux")]
use breme_base::{HttpUrl, has_user_info};
use breme_command::failure::Failure;
use breme_command::server::AdminFlag;
use breme_driver::Address;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Output")]
pub struct ExportFlags {
    #[command(flatten)]
    admin: AdminFlag,

    /// URL of a Prometheus remote write receiver; the metrics are sent to it every second and at the end
    #[cfg(target_os = "linux")]
    #[arg(long, value_name = "URL")]
    remote_write: Option<String>,

    /// File with the Authorization header of --remote-write: Bearer TOKEN, or Basic USER:PASSWORD
    #[cfg(target_os = "linux")]
    #[arg(long, value_name = "FILE", requires = "remote_write")]
    remote_write_auth_file: Option<PathBuf>,
}

impl ExportFlags {
    pub(crate) const fn has_admin(&self) -> bool {
        self.admin.is_set()
    }

    pub(crate) fn admin(&self) -> Result<Option<Address>, Failure> {
        self.admin.address()
    }

    #[cfg(target_os = "linux")]
    pub(crate) fn receiver(&self) -> Result<Option<Receiver>, Failure> {
        let Some(url) = &self.remote_write else { return Ok(None) };
        if has_user_info(url) {
            let remedy = "write it to a file, and name that with --remote-write-auth-file";
            return Err(Failure::usage(format!(
                "--remote-write: messages would show the password in this URL; {remedy}"
            )));
        }
        if let Err(problem) = HttpUrl::parse(url) {
            let remedy = "write http://HOST[:PORT]/PATH or https://HOST[:PORT]/PATH";
            return Err(Failure::usage(format!("--remote-write {url}: {problem}; {remedy}")));
        }
        let receiver = Receiver::new(url.clone(), self.remote_write_auth_file.clone());
        receiver.map(Some).map_err(|problem| Failure::run(format!("--remote-write-auth-file {problem}")))
    }
}
