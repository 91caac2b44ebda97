//! Who sends a request, and to which host.

use std::net::IpAddr;

use http::header::HOST;
use http::{HeaderMap, Uri};

use crate::accounts::Scope;
use crate::settings::{Readers, Settings, Writers};

/// The sender of a request.
#[derive(Clone, Debug)]
pub(crate) struct Visitor {
    /// The client's address: the peer's, or behind a proxy on this machine or a trusted one, the one that it reports.
    pub(crate) address: IpAddr,
    pub(crate) identity: Identity,
    /// Whether the request was sent on this machine and to a name of this machine.
    pub(crate) is_local: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Identity {
    Anonymous,
    /// A signed-in browser.
    User {
        name: String,
        scope: Scope,
    },
    /// A program with a token.
    Token {
        label: String,
        scope: Scope,
    },
}

impl Visitor {
    /// The name of this visitor in the history of pages.
    pub(crate) fn author(&self) -> Option<&str> {
        match &self.identity {
            Identity::Anonymous => None,
            Identity::User { name, .. } => Some(name),
            Identity::Token { label, .. } => Some(label),
        }
    }

    /// The user that the page greets: responses are then private to this user.
    pub(crate) fn user(&self) -> Option<&str> {
        match &self.identity {
            Identity::User { name, .. } => Some(name),
            _ => None,
        }
    }

    fn scope(&self) -> Option<Scope> {
        match self.identity {
            Identity::Anonymous => None,
            Identity::User { scope, .. } | Identity::Token { scope, .. } => Some(scope),
        }
    }

    pub(crate) fn may_read(&self, settings: &Settings) -> bool {
        settings.readers == Readers::Anyone || self.scope().is_some()
    }

    pub(crate) fn may_write(&self, writers: Writers) -> bool {
        match writers {
            Writers::Anyone => self.scope() != Some(Scope::Read),
            Writers::Local => self.is_local || self.scope() == Some(Scope::Write),
            Writers::Members => self.scope() == Some(Scope::Write),
            Writers::Nobody => false,
        }
    }
}

/// The host and port that the request was sent to.
pub(crate) fn authority(headers: &HeaderMap, uri: &Uri) -> String {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    host.or_else(|| Some(uri.authority()?.as_str())).unwrap_or_default().to_owned()
}
