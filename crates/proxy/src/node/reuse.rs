//! Reuse of upstream connections after requests with a body.
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

use breme_http::{Method, RequestHead};

/// Who may use an upstream connection after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
        match head.has_content() {
            false => Self::AnyClient,
            true if expects_content && is_private => Self::SameClient,
            true => Self::Never,
        }
    }
}
