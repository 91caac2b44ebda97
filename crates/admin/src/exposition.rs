//! The two text formats of metrics: OpenMetrics 1.0, and Prometheus's own 0.0.4, which nearly every tool reads
//! (`promtool check metrics` supports no other).
//!
//! Metrics are written as OpenMetrics and converted to 0.0.4 on request. The differences that matter here: in 0.0.4 the
//! family of a counter has the name of its samples (`…_total`), and there are no units, infos and end mark.

use breme_http::Fields;
use breme_http::media_type::{Precision, accepted};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposition {
    /// `text/plain; version=0.0.4`.
    Prometheus,
    /// `application/openmetrics-text; version=1.0.0`.
    OpenMetrics,
}

impl Exposition {
    /// The format preferred by Accept (RFC 9110, 12.5.1); Prometheus's without a preference.
    pub fn preferred(fields: Fields<'_, '_>) -> Self {
        let weight = |format: Self| {
            let members = fields.list("Accept").filter_map(|member| accepted(member, format.media_type()));
            // `*/*` and `text/*` do not prefer a format.
            members
                .filter(|(precision, _)| *precision == Precision::Subtype)
                .map(|(_, weight)| weight)
                .max()
                .unwrap_or(0)
        };
        let open = weight(Self::OpenMetrics);
        match open > 0 && open >= weight(Self::Prometheus) {
            true => Self::OpenMetrics,
            false => Self::Prometheus,
        }
    }

    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// Converts OpenMetrics to this format.
    pub fn text(self, open_metrics: String) -> String {
        match self {
            Self::Prometheus => prometheus(&open_metrics),
            Self::OpenMetrics => open_metrics,
        }
    }
}

fn prometheus(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len());
    let mut lines = open_metrics.lines().peekable();
    while let Some(line) = lines.next() {
        // HELP precedes TYPE, and its name must be that of the samples.
        let kind =
            |line: &str| line.starts_with("# TYPE ").then(|| line.rsplit(' ').next().unwrap_or_default().to_owned());
        if line == "# EOF" || line.starts_with("# UNIT ") {
            continue;
        }
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (family, help) = rest.split_once(' ').unwrap_or((rest, ""));
            let ending = lines.peek().and_then(|next| kind(next)).map_or("", |kind| ending_of(&kind));
            text.extend(["# HELP ", family, ending, " ", help, "\n"]);
        } else if let Some(kind) = kind(line) {
            let family = line.split(' ').nth(2).unwrap_or_default();
            let known = if kind == "info" { "gauge" } else { &kind };
            text.extend(["# TYPE ", family, ending_of(&kind), " ", known, "\n"]);
        } else {
            text.extend([line, "\n"]);
        }
    }
    text
}

/// The suffix of the samples of a kind.
fn ending_of(kind: &str) -> &'static str {
    match kind {
        "counter" => "_total",
        "info" => "_info",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use breme_http::Limits;
    use breme_http1::{FieldStorage, Progress, ServerConnection};

    use super::*;

    fn preferred(accept: &str) -> Exposition {
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{accept}\r\n");
        let (mut server, mut storage) = (ServerConnection::new(), FieldStorage::new());
        match server.receive(request.as_bytes(), false, &Limits::default(), &mut storage) {
            Ok(Progress::Head { head, .. }) => Exposition::preferred(head.fields),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn openmetrics_is_sent_if_the_client_prefers_it() {
        let prometheus_2 = "Accept: application/openmetrics-text;version=1.0.0;q=0.5,\
            application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.2,*/*;q=0.1\r\n";
        for (accept, expected) in [
            ("", Exposition::Prometheus),
            ("Accept: */*\r\n", Exposition::Prometheus),
            ("Accept: text/html, */*;q=0.1\r\n", Exposition::Prometheus),
            ("Accept: text/plain;version=0.0.4\r\n", Exposition::Prometheus),
            ("Accept: application/openmetrics-text; version=1.0.0\r\n", Exposition::OpenMetrics),
            ("Accept: Application/OpenMetrics-Text\r\n", Exposition::OpenMetrics),
            ("Accept: application/openmetrics-text;q=0\r\n", Exposition::Prometheus),
            ("Accept: application/openmetrics-text;q=0.1, text/plain;q=0.2\r\n", Exposition::Prometheus),
            ("Accept: application/openmetrics-text;q=2, text/plain\r\n", Exposition::Prometheus),
            (prometheus_2, Exposition::OpenMetrics),
        ] {
            assert_eq!(preferred(accept), expected, "{accept}");
        }
    }

    #[test]
    fn a_translation_names_families_as_their_samples() {
        let open_metrics = "# HELP process_cpu_seconds CPU time.\n# TYPE process_cpu_seconds counter\n\
            # UNIT process_cpu_seconds seconds\nprocess_cpu_seconds_total 1.5\n# HELP breme_build What runs here.\n\
            # TYPE breme_build info\nbreme_build_info{role=\"site\"} 1\n# HELP t_seconds Times.\n\
            # TYPE t_seconds histogram\n# UNIT t_seconds seconds\nt_seconds_bucket{le=\"+Inf\"} 0\nt_seconds_sum 0.0\n\
            t_seconds_count 0\n# EOF\n";
        let expected = "# HELP process_cpu_seconds_total CPU time.\n# TYPE process_cpu_seconds_total counter\n\
            process_cpu_seconds_total 1.5\n# HELP breme_build_info What runs here.\n# TYPE breme_build_info gauge\n\
            breme_build_info{role=\"site\"} 1\n# HELP t_seconds Times.\n# TYPE t_seconds histogram\n\
            t_seconds_bucket{le=\"+Inf\"} 0\nt_seconds_sum 0.0\nt_seconds_count 0\n";
        assert_eq!(Exposition::Prometheus.text(open_metrics.to_owned()), expected);
        assert_eq!(Exposition::OpenMetrics.text(open_metrics.to_owned()), open_metrics);
    }
}
