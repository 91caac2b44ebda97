//! Reuse of upstream connections after requests with a body, and after those that authenticate their connection.
//!
//! An upstream that responds without reading a request's content, and then parses that content as the next request,
//! sends a response to no client's request. If the connection were shared by then, another client would get it: the
//! content of one request would choose the response to another one ("CL.0" request smuggling). That the kernel has
//! taken the content, or that the upstream's kernel has acknowledged it, does not mean that the upstream has read it,
//! and HTTP/1.1 has no message that does. So content that was sent is never taken for content that was read:
//!
//! | the request | the connection afterwards |
//! |---|---|
//! | has no content | goes to the pool |
//! | POST, PUT or PATCH with content | carries requests of the same client connection only |
//! | … of a trusted proxy, which speaks for many clients, or where responses are cached for others | is closed |
//! | any other method with content, which many upstreams do not expect (RFC 9110, 9.3.1) | is closed |
//! | `Expect: 100-continue`, and the final response came without a 100 | is closed |
//! | the response's head came before the request was complete | is closed |
//!
//! NTLM and Negotiate authenticate a connection, not a request (RFC 4559, 6): what follows on it runs as the user who
//! has logged in. So after credentials or a challenge of these schemes it carries requests of the same client
//! connection only, or is closed, under the same conditions as after a POST.

use breme_http::{Method, RequestHead, ResponseHead};

/// Who may use an upstream connection after a request; the later variants forbid more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reuse {
    /// All clients, through the pool.
    AnyClient,
    /// The client connection that sent the request.
    SameClient,
    /// None: close it.
    Never,
}

impl Reuse {
    /// The reuse that a request permits. `is_private`: the client is no proxy, and responses are not cached.
    pub(super) fn after(head: &RequestHead<'_, '_>, is_private: bool) -> Self {
        let expects_content = matches!(head.method, Method::Post | Method::Put | Method::Patch);
        let after_content = match head.has_content() {
            false => Self::AnyClient,
            true if expects_content => Self::own(is_private),
            true => Self::Never,
        };
        let logs_in = head.fields.all("Authorization").any(authenticates_connection);
        if logs_in { after_content.max(Self::own(is_private)) } else { after_content }
    }

    /// What remains of it after the response.
    pub(super) fn after_response(self, head: &ResponseHead<'_, '_>, is_private: bool) -> Self {
        if asks_for_login(head) { self.max(Self::own(is_private)) } else { self }
    }

    fn own(is_private: bool) -> Self {
        if is_private { Self::SameClient } else { Self::Never }
    }
}

fn asks_for_login(head: &ResponseHead<'_, '_>) -> bool {
    head.status == 401 && head.fields.list("WWW-Authenticate").any(authenticates_connection)
}

/// Whether credentials, or a challenge, are those of a scheme that authenticates the connection.
fn authenticates_connection(value: &[u8]) -> bool {
    let scheme = value.split(|&byte| byte == b' ').next().unwrap_or_default();
    scheme.eq_ignore_ascii_case(b"NTLM") || scheme.eq_ignore_ascii_case(b"Negotiate")
}
