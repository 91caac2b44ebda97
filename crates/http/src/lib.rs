//! The semantics of HTTP (RFC 9110): the meaning of messages, independent of their framing.
//!
//! ```text
//!   message      methods, targets, heads of requests and responses
//!   fields       field sections: received ones, borrowed; prepared ones that are sent often
//!   response_fields    fields that an operator sets in every response
//!   hop_by_hop, trailers    what a proxy does not forward
//!   byte_ranges, cookies, entity_tags, date, authority, status   values in fields and first lines
//!   media_type, weight      of files and in Content-Type and Accept; preferences
//!   syntax       tokens, lists and character classes
//!   refusal      why a request is refused, with its status and text
//!   limits       what a peer may request of a connection
//! ```

pub mod authority;
mod byte_ranges;
mod cookies;
mod date;
mod entity_tags;
pub mod fields;
mod hop_by_hop;
mod limits;
pub mod media_type;
mod message;
mod refusal;
mod response_fields;
mod status;
pub mod syntax;
pub mod trailers;
pub mod weight;

pub use authority::{forwarded_address, is_authority};
pub use byte_ranges::{ByteRange, RANGE_COUNT_MAX, Ranges, multipart_ranges, parse_ranges, unsatisfied_range};
pub use cookies::{CookiePair, cookie_pairs};
pub use date::{http_date, parse_http_date};
pub use entity_tags::{EntityTag, any_tag, only_tag};
pub use fields::{Field, FieldBlock, Fields, InvalidField, list_members};
pub use hop_by_hop::HopByHop;
pub use limits::{FIELD_COUNT_MAX, Limits};
pub use message::{Framing, Method, RequestHead, ResponseHead, Target, Version};
pub use refusal::{Refusal, RefusalReason};
pub use response_fields::{ResponseFieldError, ResponseFields};
pub use status::{push_decimal, reason_phrase};
pub use trailers::is_targeted_cache_control;
