//! The plan of a run: the settings, checked once so that nothing needs to be checked during the run.

mod bounds;
mod settings;

use std::time::Duration;

use breme_base::ThinkTime;
use breme_http::syntax::is_token;
use breme_http1::ClientConnection;
use breme_toml::Diagnostics;
use thiserror::Error;

use crate::request::{CONTENT_BYTES_MAX, Parts, Request, RequestError};
use crate::scenario::{Scenarios, Step};
use crate::target::{Authority, HOST_COUNT_MAX, Target, TargetError, TargetProblem, Url};
use crate::template::{RANDOM_BYTES_MAX, Template};
use crate::variables::Variables;

pub use bounds::{CONNECTION_COUNT_MAX, PIPELINE_DEPTH_MAX, SettingError, THREAD_COUNT_MAX};
pub use settings::{
    CONNECTIONS_DEFAULT, DURATION_DEFAULT, HTTP_VERSIONS, OpenLoop, Settings, Spread, TLS_VERSIONS, WAITING_MAX_DEFAULT,
};

#[derive(Clone, Debug, PartialEq, Error)]
pub enum PlanError {
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error(transparent)]
    Scenario(#[from] Diagnostics),
    #[error(transparent)]
    Setting(#[from] SettingError),
}

/// Settings that were checked, with every request built.
#[derive(Debug)]
pub struct Plan {
    settings: Settings,
    /// With scenarios: for each step, one per host.
    requests: Vec<Request>,
    /// The host index of each target; empty with one host, and with scenarios.
    target_hosts: Vec<u32>,
    hosts: Vec<Authority>,
    proxy: Option<Authority>,
    /// Fields of every request, for requests that follow a redirect.
    fields: Vec<(String, Template)>,
}

impl Settings {
    /// Checks the settings, independent of targets and scenarios.
    ///
    /// # Errors
    /// The first invalid setting.
    pub fn check(&self) -> Result<(), SettingError> {
        bounds::check(self)
    }
}

impl Plan {
    /// Checks the settings and builds the requests.
    ///
    /// # Errors
    /// The first invalid setting or target.
    pub fn new(settings: Settings) -> Result<Self, PlanError> {
        settings.check()?;
        let settings = Settings { keep_alive: settings.keeps_alive(), ..settings };
        let fields = compile_fields(&settings)?;
        let proxy = settings.proxy.as_deref().map(parse_proxy).transpose()?;
        if let Some(scenarios) = &settings.scenarios {
            let (hosts, requests) = scenario_requests(&settings, scenarios, proxy.as_ref(), &fields)?;
            return Ok(Self { settings, requests, target_hosts: Vec::new(), hosts, proxy, fields });
        }
        let variables = &settings.variables;
        let compile_content = |content: &[u8]| compile_content(content, variables);
        let content = settings.content.as_deref().map(compile_content).transpose()?;
        let mut hosts: Vec<Authority> = Vec::new();
        let mut target_hosts = Vec::with_capacity(settings.targets.len());
        let mut requests = Vec::with_capacity(settings.targets.len());
        for target in &settings.targets {
            let url = Url::parse(&target.url, variables).map_err(|error| target.fault(error))?;
            let host = hosts.iter().position(|host| host.is_same_server(&url.authority)).unwrap_or_else(|| {
                hosts.push(url.authority.clone());
                hosts.len() - 1
            });
            if hosts.len() > HOST_COUNT_MAX {
                return Err(target.fault(TargetProblem::TooManyHosts).into());
            }
            target_hosts.push(host as u32);
            let before = before_path(&url.authority, proxy.as_ref());
            let own_content = target.content.as_deref().map(compile_content).transpose()?;
            let content = own_content.as_ref().or(content.as_ref());
            let method = method_of(&settings, target, content.is_some()).map_err(|error| target.fault(error))?;
            if method == "HEAD" && settings.pipeline_depth > ClientConnection::HEAD_OUTSTANDING_MAX {
                return Err(target.fault(TargetProblem::PipelinedHead).into());
            }
            let parts = Parts {
                method,
                target: &url.path.after(before.as_bytes()),
                authority: &url.authority.text,
                version: settings.version,
                keep_alive: settings.keep_alive,
                fields: &fields,
                content,
            };
            requests.push(Request::build(parts).map_err(|error| target.fault(error))?);
        }
        match hosts.len() {
            0 => return Err(SettingError::NoTarget.into()),
            1 => target_hosts.clear(),
            _ => bounds::check_several_hosts(&settings, &hosts)?,
        }
        Ok(Self { settings, requests, target_hosts, hosts, proxy, fields })
    }

    #[inline]
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The hosts of the targets; never empty.
    #[inline]
    #[must_use]
    pub fn hosts(&self) -> &[Authority] {
        &self.hosts
    }

    /// The peers of connections: the proxy, or the hosts.
    #[inline]
    #[must_use]
    pub fn peers(&self) -> &[Authority] {
        self.proxy.as_ref().map_or(&self.hosts, std::slice::from_ref)
    }

    /// The CONNECT request for a new connection to a proxy; none if the proxy forwards requests, or without a proxy.
    #[must_use]
    pub fn tunnel_request(&self) -> Option<Vec<u8>> {
        let Authority { host, port, is_tls, .. } = &self.hosts[0];
        let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        let needs_tunnel = self.proxy.is_some() && *is_tls;
        needs_tunnel.then(|| format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n").into_bytes())
    }

    /// The first target, or the common prefix of all paths of the scenarios.
    #[must_use]
    pub fn url(&self) -> &str {
        let base = self.scenarios().and_then(Scenarios::base);
        self.settings.targets.first().map(|target| target.url.as_str()).or(base).unwrap_or_default()
    }

    #[must_use]
    pub fn method_name(&self) -> String {
        self.requests.first().map(|request| request.method_name().to_owned()).unwrap_or_default()
    }

    /// Whether connections are opened in advance, so that no request waits for a handshake that later ones do not have.
    /// If each request has a connection of its own, the handshake is part of the user's waiting time.
    #[must_use]
    pub const fn connects_ahead(&self) -> bool {
        let is_new_for_each = match &self.settings.scenarios {
            Some(scenarios) => scenarios.has_new_connections(),
            None => false,
        };
        self.settings.open_loop.is_some() && self.settings.keep_alive && !is_new_for_each
    }

    /// Whether requests are sent at instants of their own, not only after responses.
    #[inline]
    #[must_use]
    pub const fn has_users_that_think(&self) -> bool {
        self.settings.think.is_some() || self.settings.scenarios.is_some()
    }

    /// The think time before the first request of users of a closed loop, so that they do not start simultaneously.
    #[must_use]
    pub fn first_think(&self) -> Option<ThinkTime> {
        match &self.settings.scenarios {
            Some(scenarios) => Some(ThinkTime::Exponential(scenarios.mean_think())),
            None => self.settings.think,
        }
    }

    /// The maximum number of timed sends per second, as opposed to those after a response.
    #[must_use]
    pub fn timer_rate(&self) -> f64 {
        let schedule = self.settings.open_loop.as_ref().map_or(0.0, |open_loop| open_loop.pace.peak_rate());
        let think = match (&self.settings.scenarios, self.settings.think) {
            (Some(scenarios), _) => scenarios.mean_think(),
            (None, think) => think.map_or(Duration::ZERO, ThinkTime::mean),
        };
        let thinking = if think.is_zero() { 0.0 } else { self.settings.connections as f64 / think.as_secs_f64() };
        schedule + thinking
    }

    #[must_use]
    pub const fn has_scenario(&self) -> bool {
        self.settings.scenarios.is_some()
    }

    /// The scenarios, if users do more than send one request after another.
    #[inline]
    #[must_use]
    pub const fn scenarios(&self) -> Option<&Scenarios> {
        self.settings.scenarios.as_ref()
    }

    /// Whether a request writes versions into the pages.
    #[must_use]
    pub fn writes_versions(&self) -> bool {
        self.requests.iter().any(Request::writes_version)
    }

    /// Whether hits and misses are counted by Cache-Status.
    #[must_use]
    pub fn counts_caches(&self) -> bool {
        self.settings.cache_status || self.writes_versions()
    }

    /// The request of a step to the host with this index.
    #[inline]
    #[must_use]
    pub fn step_request(&self, step: usize, host: usize) -> &Request {
        &self.requests[step * self.hosts.len() + host]
    }

    /// The host index of request number `ordinal`, from 0; always the first with scenarios.
    #[inline]
    #[must_use]
    pub fn target_host(&self, ordinal: u64) -> usize {
        match self.target_hosts.as_slice() {
            [] => 0,
            hosts => hosts[(ordinal % hosts.len() as u64) as usize] as usize,
        }
    }

    /// The request to `target` that follows a redirect of `request`: with its method and content, or as GET without
    /// content.
    ///
    /// # Errors
    /// If no such request can be built.
    pub fn redirected(
        &self,
        request: &Request,
        keeps_method: bool,
        host: usize,
        target: &[u8],
    ) -> Result<Request, RequestError> {
        let authority = &self.hosts[host];
        let is_of_content =
            |name: &str| ["Content-Type", "Content-Encoding"].iter().any(|of| name.eq_ignore_ascii_case(of));
        let fields: Vec<_> =
            self.fields.iter().filter(|(name, _)| keeps_method || !is_of_content(name)).cloned().collect();
        let content = request.content_template().filter(|_| keeps_method);
        Request::build(Parts {
            method: if keeps_method { request.method_name() } else { "GET" },
            target: &Template::literal(target).after(before_path(authority, self.proxy.as_ref()).as_bytes()),
            authority: &authority.text,
            version: self.settings.version,
            keep_alive: self.settings.keep_alive,
            fields: &fields,
            content: content.as_ref(),
        })
    }

    /// The request with number `ordinal`, from 0; targets are used in turn.
    #[inline]
    #[must_use]
    pub fn request(&self, ordinal: u64) -> &Request {
        match self.requests.as_slice() {
            [only] => only,
            all => &all[(ordinal % all.len() as u64) as usize],
        }
    }
}

fn parse_proxy(url: &str) -> Result<Authority, SettingError> {
    let Url { authority, path } = Url::parse(url, &Variables::default()).map_err(SettingError::Proxy)?;
    if path.as_fixed() != Some(b"/") {
        return Err(SettingError::ProxyPath { url: url.to_owned(), authority: authority.text });
    }
    if authority.is_tls {
        return Err(SettingError::ProxyTls { url: url.to_owned(), authority: authority.text });
    }
    Ok(authority)
}

/// The prefix of the path in a request to a proxy (absolute-form: RFC 9112, 3.2.2).
fn before_path(authority: &Authority, proxy: Option<&Authority>) -> String {
    match proxy {
        None => String::new(),
        // In a tunnel the request is the same as without a proxy.
        Some(_) if authority.is_tls => String::new(),
        Some(_) => format!("http://{}", authority.text),
    }
}

/// The destination of a scenario's requests, and the prefix of their targets.
fn parse_base(base: &str, proxy: Option<&Authority>) -> Result<(Authority, Vec<u8>), SettingError> {
    let url = Url::parse(base, &Variables::default())?;
    let is_fixed = |path: &&[u8]| !path.contains(&b'?');
    let prefix = url.path.as_fixed().filter(is_fixed).ok_or_else(|| SettingError::VariableBase(base.to_owned()))?;
    let before = before_path(&url.authority, proxy);
    let prefix = [before.as_bytes(), prefix.strip_suffix(b"/").unwrap_or(prefix)].concat();
    Ok((url.authority, prefix))
}

/// The hosts of scenarios, and the requests of each step, one per host.
fn scenario_requests(
    settings: &Settings,
    scenarios: &Scenarios,
    proxy: Option<&Authority>,
    fields: &[(String, Template)],
) -> Result<(Vec<Authority>, Vec<Request>), PlanError> {
    bounds::check_scenario_settings(settings)?;
    let own = settings.targets.iter().map(|target| target.url.as_str());
    let bases: Vec<&str> =
        if settings.targets.is_empty() { scenarios.base().into_iter().collect() } else { own.collect() };
    let hosts = bases.into_iter().map(|base| parse_base(base, proxy)).collect::<Result<Vec<_>, _>>()?;
    let (first, _) = hosts.first().ok_or(SettingError::NoBase)?;
    if hosts.iter().any(|(host, _)| host.is_tls != first.is_tls) {
        return Err(SettingError::MixedSchemes.into());
    }
    let mut requests = Vec::with_capacity(scenarios.steps().len() * hosts.len());
    for step in scenarios.steps() {
        for (authority, prefix) in &hosts {
            requests.push(build_step(settings, step, authority, prefix, fields)?);
        }
    }
    Ok((hosts.into_iter().map(|(authority, _)| authority).collect(), requests))
}

fn build_step(
    settings: &Settings,
    step: &Step,
    authority: &Authority,
    prefix: &[u8],
    common: &[(String, Template)],
) -> Result<Request, PlanError> {
    let fault = |error: RequestError| PlanError::Scenario(step.fault(error));
    let target = Target { method: Some(step.method.clone()), ..Target::default() };
    let method = method_of(settings, &target, step.content.is_some()).map_err(fault)?;
    let is_own = |name: &str| step.fields.iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
    let mut fields: Vec<_> = common.iter().filter(|(name, _)| !is_own(name)).cloned().collect();
    fields.extend(step.fields.iter().cloned());
    let parts = Parts {
        method,
        target: &step.target.clone().after(prefix),
        authority: &authority.text,
        version: settings.version,
        keep_alive: settings.keep_alive,
        fields: &fields,
        content: step.content.as_ref(),
    };
    Request::build(parts).map_err(fault)
}

fn compile_fields(settings: &Settings) -> Result<Vec<(String, Template)>, SettingError> {
    let mut fields = Vec::new();
    for (name, value) in &settings.fields {
        let template = Template::parse_with_if_any(value, settings.variables.values())
            .map_err(|source| SettingError::Field { name: name.clone(), source })?;
        fields.push((name.clone(), template));
    }
    if !settings.fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("User-Agent")) {
        let agent = concat!("breme/", env!("CARGO_PKG_VERSION"));
        fields.push(("User-Agent".to_owned(), Template::parse_if_any(agent.as_bytes()).unwrap_or_default()));
    }
    Ok(fields)
}

fn compile_content(content: &[u8], variables: &Variables) -> Result<Template, SettingError> {
    const { assert!(RANDOM_BYTES_MAX <= CONTENT_BYTES_MAX) };
    if content.len() > CONTENT_BYTES_MAX {
        return Err(SettingError::ContentLength(content.len()));
    }
    let template = Template::parse_with_if_any(content, variables.values()).map_err(SettingError::Content)?;
    match template.bytes_max(&[]) {
        longest if longest > CONTENT_BYTES_MAX => Err(SettingError::ContentLength(longest)),
        _ => Ok(template),
    }
}

/// Whether a content has placeholders, so that every brace in it is special; otherwise it is sent as it is.
#[must_use]
pub fn is_template(content: &[u8], variables: &Variables) -> bool {
    let template = Template::parse_with_if_any(content, variables.values());
    // Only a template can be invalid.
    template.map_or(true, |template| template.as_fixed() != Some(content))
}

fn method_of<'a>(settings: &'a Settings, target: &'a Target, has_content: bool) -> Result<&'a str, RequestError> {
    let method =
        target.method.as_deref().or(settings.method.as_deref()).unwrap_or(if has_content { "POST" } else { "GET" });
    match method {
        "CONNECT" => Err(RequestError::Connect),
        _ if is_token(method.as_bytes()) => Ok(method),
        _ => Err(RequestError::Method(method.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(change: impl FnOnce(&mut Settings)) -> String {
        let mut settings = Settings::new("http://a/");
        change(&mut settings);
        Plan::new(settings).unwrap_err().to_string()
    }

    #[test]
    fn the_length_of_a_body_is_bounded_with_its_placeholders() {
        let of = |count: usize| error(|settings| settings.content = Some(b"{random:16777216}".repeat(count)));
        assert_eq!(of(200), "the body has up to 3355443200 bytes; at most 67108864 can be sent");
    }

    #[test]
    fn faults_name_the_setting_and_the_remedy() {
        let check = |expected: &str, change: &dyn Fn(&mut Settings)| {
            let error = error(change);
            assert!(error.contains(expected), "{error}");
        };
        check("0 connections", &|s| s.connections = 0);
        check("pipeline depth 5000", &|s| s.pipeline_depth = 5_000);
        check("lower one of them", &|s| (s.connections, s.pipeline_depth) = (100_000, 4_096));
        check("rate -1 per second", &|s| s.open_loop = Some(OpenLoop::constant(-1.0)));
        check("rate NaN per second", &|s| s.open_loop = Some(OpenLoop::constant(f64::NAN)));
        check("a rate of 0 sends nothing", &|s| s.open_loop = Some(OpenLoop::constant(0.0)));
        check("out of range: 1 to connections × pipeline depth, 10", &|s| {
            s.open_loop = Some(OpenLoop { in_flight_max: Some(11), ..OpenLoop::constant(1.0) });
        });
        check("the deadline must be above 0", &|s| {
            s.open_loop = Some(OpenLoop { deadline: Some(Duration::ZERO), ..OpenLoop::constant(1.0) });
        });
        check("a think time needs a closed loop", &|s| {
            s.think = Some(ThinkTime::Constant(Duration::ZERO));
            s.open_loop = Some(OpenLoop::constant(1.0));
        });
        check("pipelining needs", &|s| (s.keep_alive, s.pipeline_depth) = (false, 2));
        check("the timeout must be above 0", &|s| s.timeout = Duration::ZERO);
        check("the number of requests and the duration must be", &|s| s.requests = Some(0));
        check("no end", &|s| (s.requests, s.duration) = (None, None));
        check("generated from the body", &|s| s.fields.push(("content-length".into(), b"1".to_vec())));
        check("exclude each other", &|s| (s.cookies, s.fields) = (true, vec![("cookie".into(), b"a=b".to_vec())]));
        check("header \"X\", column 2: {seq:1}", &|s| s.fields.push(("X".into(), b"a{seq:1} {seq}".to_vec())));
        check("body, column 1", &|s| s.content = Some(b"{x} {seq}".to_vec()));
        check("\"G ET\" is not a method", &|s| s.method = Some("G ET".into()));
        check("CONNECT is not supported", &|s| s.method = Some("CONNECT".into()));
        check("the proxy's URL \"http://p/x\" has a path; write http://p", &|s| s.proxy = Some("http://p/x".into()));
        check("TLS to the proxy is not supported; write http://p", &|s| s.proxy = Some("https://p".into()));
        check("no target", &|s| s.targets.clear());
        check("several hosts cannot be pipelined", &|s| {
            s.pipeline_depth = 2;
            s.targets.push(Target::url("http://b/"));
        });
        check("several https:// hosts", &|s| {
            s.proxy = Some("http://p".into());
            s.targets.push(Target::url("https://a/"));
        });
        check("line 3: is on another host", &|s| {
            let more = (0..HOST_COUNT_MAX).map(|port| Target::url(&format!("http://a:{}", 1_000 + port)));
            s.targets.extend(more.map(|target| Target { line: Some(3), ..target }));
        });
        check("redirects cannot be followed", &|s| (s.redirects_max, s.pipeline_depth) = (1, 2));
    }

    #[test]
    fn targets_of_several_hosts() {
        let mut settings = Settings::new("http://a/1");
        settings.targets.extend(["http://b:81/2", "http://A/3", "https://a/4"].map(Target::url));
        let plan = Plan::new(settings).unwrap();
        assert_eq!((0..5).map(|ordinal| plan.target_host(ordinal)).collect::<Vec<_>>(), [0, 1, 0, 2, 0]);
        let hosts: Vec<(&str, u16)> = plan.hosts().iter().map(|host| (host.host.as_str(), host.port)).collect();
        assert_eq!(hosts, [("a", 80), ("b", 81), ("a", 443)]);
    }

    #[test]
    fn several_hosts_need_a_scenario_in_a_closed_loop() {
        let file = "scenario = [{ name = \"x\", step = [{ request = \"/x\" }, { request = \"/y\" }] }]";
        let settings = || Settings {
            targets: vec![Target::url("http://a/"), Target::url("http://b:81/app")],
            scenarios: Scenarios::parse(file, None, &Variables::default()).ok(),
            ..Settings::new("http://a/")
        };
        let plan = Plan::new(settings()).unwrap();
        let hosts: Vec<&str> = plan.hosts().iter().map(|host| host.text.as_str()).collect();
        assert_eq!((hosts, plan.requests.len()), (vec!["a", "b:81"], 4));
        let check = |change: fn(&mut Settings), expected: &str| {
            let mut settings = settings();
            change(&mut settings);
            let error = Plan::new(settings).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check(|s| s.open_loop = Some(OpenLoop::constant(1.0)), "need a closed loop");
        check(|s| s.proxy = Some("http://p".into()), "through a proxy");
        check(|s| s.targets[1].url = "https://b".into(), "must all be http:// or all https://");
        check(|s| s.targets = vec![Target::url("http://a/"); HOST_COUNT_MAX + 1], "at most 256 hosts");
    }

    #[test]
    fn targets_take_turns() {
        let mut settings = Settings::new("http://a/");
        settings.targets.push(Target { method: Some("HEAD".into()), ..Target::url("http://a/x") });
        let plan = Plan::new(settings).unwrap();
        let heads: Vec<bool> =
            (0..4).map(|ordinal| plan.request(ordinal).method() == breme_http::Method::Head).collect();
        assert_eq!(heads, [false, true, false, true]);
    }

    #[test]
    fn content_makes_a_post() {
        let mut settings = Settings::new("http://a/");
        settings.content = Some(b"x".to_vec());
        assert_eq!(Plan::new(settings).unwrap().request(0).method(), breme_http::Method::Post);
    }
}
