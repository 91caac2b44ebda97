//! Load generators, each run for a fixed time and asked how many requests were answered.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::cpu::GENERATOR_CPU;
use crate::servers::breme;

/// A program that makes load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Generator {
    Breme,
    Wrk,
    H2load,
}

/// What it is to do.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) generator: Generator,
    pub(crate) connections: usize,
    pub(crate) pipeline: usize,
    pub(crate) seconds: u64,
}

impl Load {
    /// Runs it to its end; returns how many requests were answered well.
    pub(crate) fn run(&self, url: &str) -> Result<f64, String> {
        let output = self.command(url)?.stderr(Stdio::inherit()).output();
        let output = output.map_err(|error| format!("{:?}: {error}", self.generator))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let answered = match self.generator {
            Generator::Breme => answered_of_breme(&text),
            Generator::Wrk => number_before(&text, " requests in "),
            Generator::H2load => number_before(&text, " succeeded"),
        };
        answered
            .filter(|&answered| answered > 0.0)
            .ok_or_else(|| format!("{:?} on {url} printed:\n{text}", self.generator))
    }

    fn command(&self, url: &str) -> Result<Command, String> {
        let mut command = Command::new("taskset");
        command.args(["-c", GENERATOR_CPU]);
        let connections = self.connections.to_string();
        let seconds = self.seconds.to_string();
        let pipeline = self.pipeline.to_string();
        match self.generator {
            Generator::Breme => command.arg(breme()?).args([
                "load",
                "--json",
                "-t1",
                "-c",
                &connections,
                "-d",
                &seconds,
                "-p",
                &pipeline,
            ]),
            Generator::Wrk => command.args(["wrk", "-t1", "-c", &connections, "-d", &seconds]),
            Generator::H2load => {
                command.args(["h2load", "--h1", "-t1", "-c", &connections, "-D", &seconds, "-m", &pipeline])
            }
        };
        command.arg(url);
        Ok(command)
    }
}

fn answered_of_breme(text: &str) -> Option<f64> {
    serde_json::from_str::<Value>(text).ok()?["requests"]["answered"].as_f64()
}

/// The number that stands right before `words`.
fn number_before(text: &str, words: &str) -> Option<f64> {
    text.split(words).next().filter(|before| before.len() < text.len())?.rsplit([' ', '\n']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_generators_print() {
        assert_eq!(number_before("  1234 requests in 5.00s, 1MB read", " requests in "), Some(1234.0));
        assert_eq!(number_before("requests: 9 total, 9 started, 7 succeeded, 0 failed", " succeeded"), Some(7.0));
        assert_eq!(number_before("nothing", " succeeded"), None);
    }
}
