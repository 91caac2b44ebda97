//! The scenario file format: TOML, with a schema for editors.
//!
//! ```toml
//! base = "http://127.0.0.1:8080"
//!
//! [variables]                            # drawn once for each session
//! page = "{zipf:1000:0.9}"
//!
//! [[scenario]]
//! name = "edit"
//! weight = 1
//! think = "1s..5s"
//!
//! [[scenario.step]]
//! name = "form"
//! request = "GET /edit/{page}"
//! check = { status = "200", contains = "<form" }
//! capture.token = { regex = 'name="token" value="([^"]+)"' }
//!
//! [[scenario.step]]
//! name = "save"
//! request = "POST /edit/{page}"
//! headers = { Content-Type = "application/x-www-form-urlencoded" }
//! body = "token={token:url}&text={random:2000}"
//! check = { status = "303" }
//! ```

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;

/// A scenario file of `breme load --scenario`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Base URL of the requests: http://HOST[:PORT][/PREFIX]; a URL on the command line overrides it.
    #[schemars(with = "Option<String>")]
    pub(crate) base: Option<Spanned<String>>,
    /// `kept`: consecutive sessions share a connection, as behind a proxy of many users [default]. `new`: each session
    /// opens its own connection and closes it at its end.
    pub(crate) connection: Option<ConnectionUse>,
    /// Initial values of the variables of each session; placeholders in them are drawn once per session.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, String>")]
    pub(crate) variables: BTreeMap<Spanned<String>, Spanned<String>>,
    /// Headers of every request.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, String>")]
    pub(crate) headers: BTreeMap<Spanned<String>, Spanned<String>>,
    /// The scenarios; each session runs one of them, chosen by weight.
    #[schemars(with = "Vec<Scenario>")]
    pub(crate) scenario: Spanned<Vec<Spanned<Scenario>>>,
}

/// Which connection a session uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ConnectionUse {
    /// That of the previous session.
    Kept,
    /// A new one.
    New,
}

/// A sequence of steps of one user.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Name in the result.
    #[schemars(with = "String")]
    pub(crate) name: Spanned<String>,
    /// Share of the sessions, relative to the weights of the other scenarios [default: 1].
    #[schemars(with = "Option<u32>")]
    pub(crate) weight: Option<Spanned<u32>>,
    /// Think time after each step without its own: `1s` (exponential, mean 1 s), `1s..3s` (uniform) or `1s,constant`.
    #[schemars(with = "Option<String>")]
    pub(crate) think: Option<Spanned<String>>,
    /// Headers of every request of this scenario.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, String>")]
    pub(crate) headers: BTreeMap<Spanned<String>, Spanned<String>>,
    /// The steps, in order.
    #[schemars(with = "Vec<Step>")]
    pub(crate) step: Spanned<Vec<Spanned<Step>>>,
}

/// A request, or (with `step`) a group of steps.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Name in the result; steps of the same name are counted together [default: the request].
    #[schemars(with = "Option<String>")]
    pub(crate) name: Option<Spanned<String>>,
    /// Method and path: `GET /page/{page}`.
    #[schemars(with = "Option<String>")]
    pub(crate) request: Option<Spanned<String>>,
    /// Headers of this request.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, String>")]
    pub(crate) headers: BTreeMap<Spanned<String>, Spanned<String>>,
    /// Body of the request.
    #[schemars(with = "Option<String>")]
    pub(crate) body: Option<Spanned<String>>,
    /// Checks on the response [default: a status from 200 to 399].
    #[schemars(with = "Option<ResponseCheck>")]
    pub(crate) check: Option<Spanned<ResponseCheck>>,
    /// Values to capture from the response into variables; a missing value ends the session.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, Capture>")]
    pub(crate) capture: BTreeMap<Spanned<String>, Spanned<Capture>>,
    /// Think time after this step [default: that of the scenario].
    #[schemars(with = "Option<String>")]
    pub(crate) think: Option<Spanned<String>>,
    /// Number of times that the step is run in succession [default: 1].
    #[schemars(with = "Option<u32>")]
    pub(crate) repeat: Option<Spanned<u32>>,
    /// The steps of a group, which `repeat` repeats together.
    #[schemars(with = "Option<Vec<Step>>")]
    pub(crate) step: Option<Spanned<Vec<Spanned<Self>>>>,
}

/// Checks on a response.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Check")]
pub struct ResponseCheck {
    /// Status: `200`, `200,304`, `2xx` or `200-299`.
    #[schemars(with = "Option<StatusText>")]
    pub(crate) status: Option<Spanned<StatusText>>,
    /// Text that the body must contain.
    pub(crate) contains: Option<String>,
    /// Length of the body, bytes.
    pub(crate) bytes: Option<u64>,
    /// SHA-256 of the body, hexadecimal.
    #[schemars(with = "Option<String>")]
    pub(crate) sha256: Option<Spanned<String>>,
    /// The request stores the pair of its parameters `name` and `value` in the session of the user's cookies, and a
    /// response of status 2xx shows all pairs of the session, one `K=V` per line. Every response must show each pair
    /// that was acknowledged before; names must differ. Without a response the session goes on with its next step.
    #[serde(default)]
    pub(crate) pairs: bool,
    /// JSON pointers (RFC 6901) into the body and the values expected there.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    pub(crate) json: BTreeMap<Spanned<String>, toml::Value>,
}

/// A status, as a number or a text.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a status such as 200 or \"2xx\"")]
pub enum StatusText {
    /// `200`
    Number(u16),
    /// `"2xx"`
    Text(String),
}

/// The part of a response from which a value is captured.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Capture {
    /// The first header of this name.
    Header(String),
    /// The cookie of this name that the response sets.
    Cookie(String),
    /// The value at this JSON pointer (RFC 6901) in the body.
    Json(String),
    /// The first group of this regular expression in the body, or the whole match if it has no group.
    Regex(String),
}
