//! The scenario file as it is written: TOML, and the schema for editors.
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
    /// Where the requests go: http://HOST[:PORT], and a beginning that all paths have in common. A URL on the command
    /// line takes its place.
    #[schemars(with = "Option<String>")]
    pub(crate) base: Option<Spanned<String>>,
    /// `kept`: sessions that follow each other on a connection share it, as those of a proxy in front of many people do
    /// [default]. `new`: each session opens a connection of its own, and closes it at its end.
    pub(crate) connection: Option<ConnectionUse>,
    /// Values that a session has from its beginning. A text may hold placeholders, which are drawn once for each
    /// session.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, String>")]
    pub(crate) variables: BTreeMap<Spanned<String>, Spanned<String>>,
    /// Fields of every request.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, String>")]
    pub(crate) headers: BTreeMap<Spanned<String>, Spanned<String>>,
    /// What users do.
    #[schemars(with = "Vec<Scenario>")]
    pub(crate) scenario: Spanned<Vec<Spanned<Scenario>>>,
}

/// What a session does about its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ConnectionUse {
    /// It takes over that of the session before.
    Kept,
    /// It opens one.
    New,
}

/// Something that users do, step by step.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Its name in the result.
    #[schemars(with = "String")]
    pub(crate) name: Spanned<String>,
    /// How often it is chosen, beside the other scenarios' weights [default: 1].
    #[schemars(with = "Option<u32>")]
    pub(crate) weight: Option<Spanned<u32>>,
    /// Think time after each step without its own: `1s` (exponential, mean 1 s), `1s..3s` (uniform) or `1s,constant`.
    #[schemars(with = "Option<String>")]
    pub(crate) think: Option<Spanned<String>>,
    /// Fields of every request of this scenario.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, String>")]
    pub(crate) headers: BTreeMap<Spanned<String>, Spanned<String>>,
    /// The steps, in their order.
    #[schemars(with = "Vec<Step>")]
    pub(crate) step: Spanned<Vec<Spanned<Step>>>,
}

/// A request, or (with `step`) a group of steps.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Its name in the result; steps with the same name are counted together [default: the request].
    #[schemars(with = "Option<String>")]
    pub(crate) name: Option<Spanned<String>>,
    /// Method and path: `GET /page/{page}`.
    #[schemars(with = "Option<String>")]
    pub(crate) request: Option<Spanned<String>>,
    /// Fields of this request.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, String>")]
    pub(crate) headers: BTreeMap<Spanned<String>, Spanned<String>>,
    /// Content.
    #[schemars(with = "Option<String>")]
    pub(crate) body: Option<Spanned<String>>,
    /// What the answer must be like [default: a status from 200 to 399].
    #[schemars(with = "Option<Check>")]
    pub(crate) check: Option<Spanned<Check>>,
    /// What is taken out of the answer into a variable. Where it is not found, the session ends.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, Capture>")]
    pub(crate) capture: BTreeMap<Spanned<String>, Spanned<Capture>>,
    /// Time to think after it.
    #[schemars(with = "Option<String>")]
    pub(crate) think: Option<Spanned<String>>,
    /// It is done so many times, one after another [default: 1].
    #[schemars(with = "Option<u32>")]
    pub(crate) repeat: Option<Spanned<u32>>,
    /// A group: these steps, repeated together.
    #[schemars(with = "Option<Vec<Step>>")]
    pub(crate) step: Option<Spanned<Vec<Spanned<Self>>>>,
}

/// What an answer must be like.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// `200`, `200,304`, `2xx` or `200-299`.
    #[schemars(with = "Option<StatusText>")]
    pub(crate) status: Option<Spanned<StatusText>>,
    /// Text that the content must hold.
    pub(crate) contains: Option<String>,
    /// Length that the content must have.
    pub(crate) bytes: Option<u64>,
    /// SHA-256 that the content must have.
    #[schemars(with = "Option<String>")]
    pub(crate) sha256: Option<Spanned<String>>,
    /// JSON pointers (RFC 6901) and the values that must stand there.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    pub(crate) json: BTreeMap<Spanned<String>, toml::Value>,
}

/// A status as a number or as text.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a status such as 200 or \"2xx\"")]
pub enum StatusText {
    /// `200`
    Number(u16),
    /// `"2xx"`
    Text(String),
}

/// Where a value is taken from.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Capture {
    /// The first field of this name.
    Header(String),
    /// The cookie of this name that the answer sets.
    Cookie(String),
    /// The place in the JSON content that this pointer (RFC 6901) names.
    Json(String),
    /// The first group of this regular expression in the content, or what it matches if it has none.
    Regex(String),
}
