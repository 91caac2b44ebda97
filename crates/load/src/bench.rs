//! The result in the format of Go benchmarks, for `benchstat`.

use std::io::{self, Write};

use breme_load_result::LoadOutcome;
use breme_stats::go_bench::{Better, Measure, write_configuration, write_line, write_unit};

/// Writes the result. The files of several runs may be concatenated.
///
/// # Errors
/// Those of `out`.
pub fn write<W: Write>(out: &mut W, outcome: &LoadOutcome) -> io::Result<()> {
    let LoadOutcome { settings, requests, response_time, service_time, generator, .. } = outcome;
    let ns = |nanos: u64, unit: &'static str| Measure { value: nanos as f64, unit };
    let measures = [
        Measure { value: response_time.mean_ns, unit: "ns/op" },
        ns(response_time.p50_ns, "p50-ns"),
        ns(response_time.p95_ns, "p95-ns"),
        ns(response_time.p99_ns, "p99-ns"),
        ns(response_time.p999_ns, "p999-ns"),
        ns(service_time.p50_ns, "service-p50-ns"),
        ns(service_time.p99_ns, "service-p99-ns"),
        Measure { value: outcome.achieved_rate, unit: "req/s" },
        Measure { value: (outcome.errors.values().sum::<u64>()) as f64, unit: "errors" },
    ];
    write_configuration(out, "url", &settings.url)?;
    write_configuration(out, "connections", &settings.connections.to_string())?;
    write_configuration(out, "valid", if outcome.valid { "true" } else { "false" })?;
    for Measure { unit, .. } in &measures[1..] {
        write_unit(out, unit, if *unit == "req/s" { Better::Higher } else { Better::Lower })?;
    }
    write_line(out, &name(outcome), generator.processors, requests.answered, &measures)
}

fn name(outcome: &LoadOutcome) -> String {
    match outcome.scenarios.as_slice() {
        [] => format!("Load/{}", outcome.settings.method),
        [only] => format!("Load/{}", only.name),
        several => format!("Load/{}_scenarios", several.len()),
    }
}
