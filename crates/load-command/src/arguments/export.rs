//! Flags of the metrics of a running load.

#[cfg(target_os = "linux")]
use std::path::PathBuf;

#[cfg(target_os = "linux")]
use breme_admin::push::{Protocol, Receiver};
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

    /// URL of an OpenTelemetry receiver (OTLP over HTTP), such as http://HOST:4318/v1/metrics; the metrics are sent to
    /// it every second and at the end
    #[cfg(target_os = "linux")]
    #[arg(long, value_name = "URL")]
    otlp: Option<String>,

    /// File with the Authorization header of --otlp: Bearer TOKEN, or Basic USER:PASSWORD
    #[cfg(target_os = "linux")]
    #[arg(long, value_name = "FILE", requires = "otlp")]
    otlp_auth_file: Option<PathBuf>,
}

impl ExportFlags {
    pub(crate) const fn has_admin(&self) -> bool {
        self.admin.is_set()
    }

    pub(crate) fn admin(&self) -> Result<Option<Address>, Failure> {
        self.admin.address()
    }

    #[cfg(target_os = "linux")]
    pub(crate) fn receivers(&self) -> Result<Vec<(Protocol, Receiver)>, Failure> {
        let remote_write = (Protocol::RemoteWrite, "remote-write", &self.remote_write, &self.remote_write_auth_file);
        let otlp = (Protocol::Otlp, "otlp", &self.otlp, &self.otlp_auth_file);
        let given = [remote_write, otlp].into_iter();
        let given = given.filter_map(|(protocol, flag, url, file)| Some((protocol, flag, url.as_ref()?, file)));
        given.map(|(protocol, flag, url, file)| Ok((protocol, receiver(flag, url, file.clone())?))).collect()
    }
}

#[cfg(target_os = "linux")]
fn receiver(flag: &str, url: &str, auth_file: Option<PathBuf>) -> Result<Receiver, Failure> {
    if has_user_info(url) {
        let remedy = format!("write it to a file, and name that with --{flag}-auth-file");
        return Err(Failure::usage(format!("--{flag}: messages would show the password in this URL; {remedy}")));
    }
    if let Err(problem) = HttpUrl::parse(url) {
        let remedy = "write http://HOST[:PORT]/PATH or https://HOST[:PORT]/PATH";
        return Err(Failure::usage(format!("--{flag} {url}: {problem}; {remedy}")));
    }
    Receiver::new(url.to_owned(), auth_file).map_err(|problem| Failure::run(format!("--{flag}-auth-file {problem}")))
}
