//! Fixed responses for measurements, and responses that show what the server received.
//!
//! | path | response |
//! |---|---|
//! | `/bytes/N` | N bytes, up to [`generated_bytes_max`](crate::Settings::generated_bytes_max) |
//! | `/status/CODE` | that status, 200 to 599 |
//! | `/delay/MS` | 200 after MS milliseconds |
//! | `/echo` | the request's header lines |
//! | `/cookie` | the cookies as received, `name=value`, one per line |
//! | `/counter` | responses of all shards so far, without this one |

use std::time::Duration;

use breme_http::{RequestHead, cookie_pairs};

use crate::response::{Body, CacheControl, HeaderLines, Response};
use crate::settings::Settings;

/// The page at `/` if there is no file.
pub(crate) const INDEX: &str = "breme site --lab\n\n\
    GET /bytes/N      N bytes\n\
    GET /status/CODE  a response with this status\n\
    GET /delay/MS     a response after MS milliseconds\n\
    GET /echo         the headers of the request\n\
    GET /cookie       the cookies of the request\n\
    GET /counter      the number of responses so far\n\
    POST /anything    the body of the request\n";

/// A response and its delay.
#[derive(Debug)]
pub(crate) struct LabResponse {
    pub(crate) response: Response,
    pub(crate) delay: Duration,
}

/// The response of a lab path; None for any other path.
pub(crate) fn response(
    path: &str,
    head: &RequestHead<'_, '_>,
    settings: &Settings,
    responses_total: impl FnOnce() -> u64,
) -> Option<LabResponse> {
    let (route, argument) =
        path.strip_prefix('/')?.split_once('/').map_or((&path[1..], None), |(route, argument)| (route, Some(argument)));
    let mut delay = Duration::ZERO;
    let response = match (route, argument) {
        ("bytes", Some(count)) => generated(count, settings),
        ("status", Some(code)) => from_code(code),
        ("delay", Some(millis)) => {
            match number(millis).map(Duration::from_millis).filter(|it| *it <= settings.delay_max) {
                Some(requested) => {
                    delay = requested;
                    Response::report(format!("{} ms\n", requested.as_millis()))
                }
                None => bad_argument("/delay/MS takes milliseconds", settings.delay_max.as_millis() as u64),
            }
        }
        ("echo", None) => Response::report(field_lines(head)),
        ("cookie", None) => Response::report(cookie_lines(head)),
        ("counter", None) => Response::report(format!("{}\n", responses_total())),
        _ => return None,
    };
    Some(LabResponse { response, delay })
}

fn generated(count: &str, settings: &Settings) -> Response {
    match number(count).filter(|&count| count <= settings.generated_bytes_max) {
        Some(count) => Response {
            lines: HeaderLines::Octets,
            caching: CacheControl::Site,
            body: Body::Pattern(count),
            ..Response::empty(200)
        },
        None => bad_argument("/bytes/N takes a number of bytes", settings.generated_bytes_max),
    }
}

fn bad_argument(what: &str, max: u64) -> Response {
    Response::with_status(400, format!("400 Bad Request: {what} from 0 to {max}.\n"))
}

/// Digits only: no sign, no white space.
fn number(digits: &str) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok()).flatten()
}

/// A status with the header fields that RFC 9110 requires for it.
fn from_code(code: &str) -> Response {
    let Some(status) = number(code).filter(|code| (200..=599).contains(code)) else {
        return Response::with_status(400, "400 Bad Request: /status/CODE takes a status from 200 to 599.\n");
    };
    let status = status as u16;
    let text = format!("{status}\n");
    let length = text.len();
    match status {
        // Without a body (RFC 9110, 15.3.5, 15.3.6, 15.4.5).
        204 | 205 | 304 => Response::empty(status),
        206 => Response::with_status(status, text)
            .with("Content-Range", format!("bytes 0-{}/{length}", length - 1).as_bytes()),
        301 | 302 | 303 | 307 | 308 => Response::with_status(status, text).with("Location", b"/"),
        401 => Response::with_status(status, text).with("WWW-Authenticate", b"Basic realm=\"breme\""),
        405 => Response::with_status(status, text).with("Allow", b"GET, HEAD, OPTIONS, POST"),
        407 => Response::with_status(status, text).with("Proxy-Authenticate", b"Basic realm=\"breme\""),
        416 => Response::with_status(status, text).with("Content-Range", b"bytes */0"),
        429 | 503 => Response::with_status(status, text).with("Retry-After", b"1"),
        _ => Response::with_status(status, text),
    }
}

fn field_lines(head: &RequestHead<'_, '_>) -> Vec<u8> {
    let mut text = Vec::with_capacity(512);
    for field in head.fields.iter() {
        text.extend_from_slice(field.name.as_bytes());
        text.extend_from_slice(b": ");
        text.extend_from_slice(field.value);
        text.push(b'\n');
    }
    text
}

fn cookie_lines(head: &RequestHead<'_, '_>) -> Vec<u8> {
    let mut text = Vec::with_capacity(256);
    for pair in head.fields.all("cookie").flat_map(cookie_pairs) {
        text.extend_from_slice(pair.as_bytes());
        text.push(b'\n');
    }
    text
}
