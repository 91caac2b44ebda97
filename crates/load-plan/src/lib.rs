//! The plan of a load: what is sent, when, and which responses are expected; all of it checked before the run.
//!
//! ```text
//!   Settings (targets, templates, scenarios, pace) ──check──► Plan ──► requests, steps, schedule
//! ```
//!
//! | module | content |
//! |---|---|
//! | `target`, `template`, `variables`, `encoding`, `zipf` | URLs, placeholders, values |
//! | `request`, `request_text` | requests, built once, and rendered for each send; `GET /page` as text |
//! | `plan` | the settings with their limits, defaults and names, and the plan of which every request is built |
//! | `pace`, `schedule` | the open loop: its rate over time; when requests are due |
//! | `scenario` | users that perform several steps |
//! | `checks` | checks of responses |
//!
//! Begin with [`Plan`]. The same plan, seed and number give the same request at the same instant, whichever thread
//! asks. What a run adds to a request (cookies, marks of versions) and all that depends on responses is in
//! `breme-load`.
//!
//! This crate knows no nodes, clocks, threads and files: the texts of files are passed to it.

mod checks;
mod encoding;
mod pace;
mod plan;
mod request;
mod request_text;
mod scenario;
mod schedule;
mod target;
mod template;
mod variables;
mod zipf;

pub use checks::{CheckState, DigestError, Expectations, Needle, StatusSet, StatusSetError, parse_sha256};
pub use encoding::UnknownEncoding;
pub use pace::{Arrivals, Pace, PaceStage, RateError, Shape, StageError, parse_rate};
pub use plan::{
    CONNECTION_COUNT_MAX, CONNECTIONS_DEFAULT, DURATION_DEFAULT, HTTP_VERSIONS, OpenLoop, PIPELINE_DEPTH_MAX, Plan,
    PlanError, SettingError, Settings, Spread, THREAD_COUNT_MAX, TLS_VERSIONS, WAITING_MAX_DEFAULT, is_template,
};
pub use request::{Content, Request, RequestError, is_field_name, target_of};
pub use request_text::{RequestText, RequestTextError, check_target};
pub use scenario::{
    CONTENT_KEPT_MAX, Capture, CaptureSource, File as ScenarioFile, GROUP_DEPTH_MAX, SCENARIO_COUNT_MAX,
    STEP_COUNT_MAX, Scenario, ScenarioOperation, Scenarios, Step, VALUE_BYTES_MAX,
};
pub use schedule::Schedule;
pub use target::{Authority, OriginError, Target, TargetError, TargetProblem, UrlError};
pub use template::{Inputs, MARK_BLANK, MARK_BYTES, PlaceholderError, TARGET_PLACEHOLDERS, Template, TemplateError};
pub use variables::{VariableError, Variables};
