//! Credentials, which appear in no report, plan or process list.

use std::fmt;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use breme_command::failure::Failure;

use super::LoadArgs;
use super::input::read_file;

/// Headers whose values are credentials.
const SECRET_HEADERS: [&str; 3] = ["Authorization", "Proxy-Authorization", "Cookie"];
/// Prefix of an environment variable's name.
const ENVIRONMENT: &str = "env:";

#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Request")]
pub struct CredentialFlags {
    /// Basic credentials, USER:PASSWORD; @FILE or env:NAME reads them from a file or an environment variable
    #[arg(short, long, short_alias = 'a', value_name = "CREDENTIALS", conflicts_with = "bearer")]
    user: Option<Secret>,

    /// Bearer token; @FILE or env:NAME reads it from a file or an environment variable
    #[arg(long, alias = "oauth2-bearer", value_name = "TOKEN")]
    bearer: Option<Secret>,
}

/// A value of one of these flags. Its text is never shown.
#[derive(Clone, PartialEq, Eq)]
struct Secret(String);

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(…)")
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl Secret {
    /// Whether the value itself was passed, rather than its location.
    fn is_literal(&self) -> bool {
        !self.0.starts_with('@') && !self.0.starts_with(ENVIRONMENT)
    }

    /// The first line of its file, or its variable.
    fn read(&self, flag: &str) -> Result<String, Failure> {
        let fault = |problem: &str| Failure::usage(format!("{flag} {}: {problem}", self.0));
        let text = if let Some(path) = self.0.strip_prefix('@') {
            let content = read_file(path.as_ref()).map_err(|problem| fault(&problem))?;
            String::from_utf8(content).map_err(|_| fault("is not text"))?
        } else if let Some(name) = self.0.strip_prefix(ENVIRONMENT) {
            std::env::var(name).map_err(|_| fault("is not set, or not text"))?
        } else {
            return Ok(self.0.clone());
        };
        let line = text.lines().next().unwrap_or_default().trim_end().to_owned();
        if line.is_empty() { Err(fault("is empty")) } else { Ok(line) }
    }
}

impl CredentialFlags {
    /// The value of Authorization.
    pub(super) fn authorization(&self) -> Result<Option<String>, Failure> {
        if let Some(user) = &self.user {
            let credentials = user.read("--user")?;
            if !credentials.contains(':') {
                let problem =
                    "--user: has no password; write USER:PASSWORD, @FILE or env:NAME (USER: for an empty password)";
                return Err(Failure::usage(problem));
            }
            return Ok(Some(format!("Basic {}", BASE64_STANDARD.encode(credentials))));
        }
        let Some(bearer) = &self.bearer else { return Ok(None) };
        let token = bearer.read("--bearer")?;
        let is_token = token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte));
        if !is_token {
            return Err(Failure::usage("--bearer: is not a token of letters, digits and -._~+/= (RFC 6750, 2.1)"));
        }
        Ok(Some(format!("Bearer {token}")))
    }

    /// Rejects credentials that a plan would show.
    pub(super) fn check_places(&self) -> Result<(), Failure> {
        let named = [("--user", &self.user), ("--bearer", &self.bearer)];
        match named.iter().find(|(_, secret)| secret.as_ref().is_some_and(Secret::is_literal)) {
            Some((flag, _)) => {
                let problem = "the plan of an experiment would show the credentials; write @FILE or env:NAME";
                Err(Failure::usage(format!("{flag}: {problem}")))
            }
            None => Ok(()),
        }
    }

    /// Overwrites the credentials in the arguments of this process, which other users can list.
    fn conceal(&self) {
        for secret in [&self.user, &self.bearer].into_iter().flatten().filter(|secret| secret.is_literal()) {
            breme_sys::conceal_argument(&secret.0);
        }
    }
}

impl LoadArgs {
    /// Overwrites credentials in the arguments of this process, which other users can list.
    pub(crate) fn conceal_credentials(&self) {
        self.credentials.conceal();
        let is_secret = |name: &str| SECRET_HEADERS.iter().any(|secret| name.eq_ignore_ascii_case(secret));
        for (_, value) in self.headers.iter().filter(|(name, _)| is_secret(name)) {
            breme_sys::conceal_argument(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(user: &str, bearer: &str) -> CredentialFlags {
        let secret = |text: &str| (!text.is_empty()).then(|| Secret::from(text));
        CredentialFlags { user: secret(user), bearer: secret(bearer) }
    }

    #[test]
    fn credentials_come_from_the_flag_a_file_or_the_environment() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "aladdin:opensesame\nignored\n").unwrap();
        let path = format!("@{}", file.path().display());
        for user in ["aladdin:opensesame", path.as_str()] {
            let value = flags(user, "").authorization().unwrap().unwrap();
            assert_eq!(value, "Basic YWxhZGRpbjpvcGVuc2VzYW1l");
        }
        assert_eq!(flags("", "abc.d-e").authorization().unwrap().unwrap(), "Bearer abc.d-e");
        let home = std::env::var("PATH").unwrap();
        let refused = flags("", "env:PATH").authorization().unwrap_err().message;
        assert!(refused.contains("RFC 6750") && !refused.contains(&home), "{refused}");
    }

    #[test]
    fn faults_do_not_show_the_credentials() {
        let message = |user: &str, bearer: &str| flags(user, bearer).authorization().unwrap_err().message;
        assert!(message("aladdin", "").contains("USER:PASSWORD") && !message("aladdin", "").contains("aladdin"));
        assert!(!message("", "opensesame!").contains("opensesame"));
        assert!(message("@/nonexistent", "").contains("--user @/nonexistent: cannot be read"));
        assert!(message("", "env:BREME_NONEXISTENT").contains("is not set"));
        assert!(!format!("{:?}", flags("aladdin:opensesame", "")).contains("sesame"));
        assert!(flags("a:b", "").check_places().unwrap_err().message.contains("@FILE"));
        assert!(flags("@x", "env:Y").check_places().is_ok());
    }
}
