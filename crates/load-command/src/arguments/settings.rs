//! Flags → settings of a plan.

use std::time::Duration;

use breme_command::failure::Failure;
use breme_command::server::random_bits;
use breme_http::Version;
use breme_load_plan::{
    Arrivals, DURATION_DEFAULT, Expectations, Needle, OpenLoop, Pace, Settings, Spread, THREAD_COUNT_MAX, Variables,
    WAITING_MAX_DEFAULT,
};

use super::input::{read_content, read_path};
use super::{LoadArgs, form};

impl LoadArgs {
    /// Reads the files named by the flags.
    pub(crate) fn settings(&self) -> Result<Settings, Failure> {
        self.check_stdin()?;
        let variables = self.variables()?;
        let settings = self.settings_without_files()?;
        let mut fields = settings.fields.clone();
        let content = self.content_with_fields(&variables, &mut fields)?;
        Ok(Settings {
            targets: self.read_targets()?,
            content,
            fields,
            scenarios: self.read_scenarios(&variables)?,
            variables,
            ..settings
        })
    }

    /// Checks everything that does not depend on files.
    pub fn check_without_files(&self) -> Result<(), Failure> {
        self.credentials.check_places()?;
        let settings = self.settings_without_files()?;
        // The meaning of a think time depends on the scenario file.
        let think = settings.think.filter(|_| self.scenario.is_none());
        Settings { think, ..settings }.check().map_err(Failure::usage)
    }

    /// Does not parse texts either: in an experiment they have placeholders that are filled in later.
    fn settings_without_files(&self) -> Result<Settings, Failure> {
        let open_loop = self.open_loop()?;
        let stages = self.stages.iter().fold(Duration::ZERO, |sum, stage| sum.saturating_add(stage.duration));
        let default = if stages.is_zero() { DURATION_DEFAULT } else { stages };
        let has_other_end = self.requests.is_some() || self.until_stopped;
        let duration = self.duration.or((!has_other_end).then_some(default));
        if let Some(threads) = self.threads.filter(|threads| !(1..=THREAD_COUNT_MAX).contains(threads)) {
            return Err(Failure::usage(format!("--threads {threads}: must be from 1 to {THREAD_COUNT_MAX}")));
        }
        self.check_spin(self.think.is_some() || self.scenario.is_some())?;
        Ok(Settings {
            targets: Vec::new(),
            proxy: self.connection.proxy.clone(),
            connections: self.connections,
            requests: self.requests,
            duration,
            until_stopped: self.until_stopped,
            pipeline_depth: self.pipeline,
            method: self.method.clone(),
            fields: self.fields()?,
            content: None,
            version: if self.http == Version::Http10.name() { Version::Http10 } else { Version::Http11 },
            keep_alive: !self.no_keepalive,
            // Users with a think time of zero do not think.
            think: self.think.filter(|think| !think.is_zero()),
            ramp: self.ramp,
            timeout: self.timeout,
            cookies: self.cookies || self.scenario.is_some(),
            redirects_max: if self.follow_redirects { self.max_redirects } else { 0 },
            spread: Spread::from_name(&self.spread).unwrap_or_default(),
            expectations: Expectations {
                status: self.expect_status.clone(),
                content_bytes: self.expect_bytes,
                content_sha256: self.expect_body_sha256,
                contains: self.expect_contains.as_ref().map(|text| Needle::new(text.as_bytes())),
            },
            open_loop,
            scenarios: None,
            variables: Variables::default(),
            interval: self.interval,
            gaps_after: self.gaps_after,
            seed: self.seed,
            cache_status: self.cache_status || self.origin_counter.is_some(),
            run_number: random_bits()? as u64,
        })
    }

    /// The body, and fields that depend on it or on credentials.
    fn content_with_fields(
        &self,
        variables: &Variables,
        fields: &mut Vec<(String, Vec<u8>)>,
    ) -> Result<Option<Vec<u8>>, Failure> {
        if let Some(value) = self.credentials.authorization()? {
            add_field(fields, "Authorization", value, "--user and --bearer")?;
        }
        if !self.form.is_empty() {
            let (content, content_type) = form::encode(&self.form, variables).map_err(Failure::usage)?;
            add_field(fields, "Content-Type", content_type, "--form")?;
            return Ok(Some(content));
        }
        match &self.body_file {
            Some(path) => {
                let file = read_path(path);
                file.map(Some).map_err(|problem| Failure::usage(format!("-D {}: {problem}", path.display())))
            }
            None => self.body.as_deref().map(read_content).transpose(),
        }
    }

    fn variables(&self) -> Result<Variables, Failure> {
        let pairs = self.variables.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        Variables::new(pairs).map_err(|problem| Failure::usage(format!("--var: {problem}")))
    }

    fn fields(&self) -> Result<Vec<(String, Vec<u8>)>, Failure> {
        let mut fields: Vec<_> =
            self.headers.iter().map(|(name, value)| (name.clone(), value.clone().into_bytes())).collect();
        let others = [
            ("Accept", &self.accept, "-A", "for credentials: -u USER:PASSWORD"),
            ("Content-Type", &self.content_type, "-T", "for a time limit: --timeout TIME"),
        ];
        for (name, value, flag, tip) in others {
            if let Some(value) = value {
                if !is_media_type(value) {
                    return Err(Failure::usage(format!("{flag} is the header {name}: TYPE/SUBTYPE; {tip}")));
                }
                add_field(&mut fields, name, value.clone(), flag)?;
            }
        }
        Ok(fields)
    }

    fn open_loop(&self) -> Result<Option<OpenLoop>, Failure> {
        let rate = self.rate_of_all()?;
        if rate.is_none() && self.stages.is_empty() {
            let named = [
                ("--arrivals", self.arrivals != Arrivals::Even.name()),
                ("--max-in-flight", self.max_in_flight.is_some()),
                ("--max-waiting", self.max_waiting != WAITING_MAX_DEFAULT),
                ("--deadline", self.deadline.is_some()),
            ];
            return match named.iter().find(|(_, is_named)| *is_named) {
                Some((flag, _)) => Err(Failure::usage(format!("{flag} needs an open loop; set its rate with -R"))),
                None => Ok(None),
            };
        }
        let arrivals = Arrivals::from_name(&self.arrivals).unwrap_or_default();
        Ok(Some(OpenLoop {
            pace: Pace { rate: rate.unwrap_or(0.0), stages: self.stages.clone(), arrivals },
            in_flight_max: self.max_in_flight,
            waiting_max: self.max_waiting,
            deadline: self.deadline,
        }))
    }

    /// The configured rate, or the one that follows from the number of requests and their time.
    fn rate_of_all(&self) -> Result<Option<f64>, Failure> {
        let (Some(requests), Some(over)) = (self.requests, self.over) else { return Ok(self.rate) };
        if over.is_zero() {
            return Err(Failure::usage("--over 0s: must be above 0; omit it to send without a schedule"));
        }
        Ok(Some(requests as f64 / over.as_secs_f64()))
    }

    /// Without timed sends, spinning has no effect.
    fn check_spin(&self, thinks: bool) -> Result<(), Failure> {
        if self.spin.is_some() && !thinks && self.rate.is_none() && self.over.is_none() && self.stages.is_empty() {
            let problem = "--spin has no effect here: it needs scheduled sends (-R, --stages) or think times (--think, --scenario)";
            return Err(Failure::usage(problem));
        }
        Ok(())
    }
}

/// Not a time limit as for wrk, or credentials as for ab.
fn is_media_type(text: &str) -> bool {
    text.split(';').next().is_some_and(|name| name.contains('/') && !name.contains(':'))
}

/// Adds the field of a `flag`.
fn add_field(fields: &mut Vec<(String, Vec<u8>)>, name: &str, value: String, flag: &str) -> Result<(), Failure> {
    if fields.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)) {
        return Err(Failure::usage(format!("the header {name} is set twice; remove {flag}, or the other {name}")));
    }
    fields.push((name.to_owned(), value.into_bytes()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    const URL: &str = "http://host.example/";

    #[derive(Debug, Parser)]
    struct LoadCommand {
        #[command(flatten)]
        args: LoadArgs,
    }

    /// As text, since needles and templates cannot be compared.
    fn settings(flags: &[&str]) -> String {
        let line = LoadCommand::try_parse_from(["load", URL].iter().chain(flags)).unwrap();
        format!("{:?}", Settings { run_number: 1, ..line.args.settings().unwrap() })
    }

    #[test]
    fn the_defaults_of_the_flags_are_those_of_the_settings() {
        let expected = Settings::new(URL);
        assert_eq!(settings(&[]), format!("{expected:?}"));
        let open = Settings { open_loop: Some(OpenLoop::constant(5.0)), ..expected };
        assert_eq!(settings(&["--rate=5"]), format!("{open:?}"));
    }

    #[test]
    fn a_time_limit_or_credentials_are_no_media_type() {
        let refused = |flags: &[&str]| {
            let line = LoadCommand::try_parse_from(["load", URL].iter().chain(flags)).unwrap();
            line.args.settings().unwrap_err().message
        };
        assert!(refused(&["-T", "5s"]).contains("--timeout TIME"));
        let problem = refused(&["-A", "user:pass/word"]);
        assert!(problem.contains("-u USER:PASSWORD") && !problem.contains("pass/"), "{problem}");
        settings(&["-T", "a/b;c=d:e", "-A", "text/html, */*"]);
    }
}
