//! What the generators print, read. The samples in `captured/` are what the programs really printed.

use serde_json::Value;

/// What a generator says about its run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Reading {
    /// Requests that were answered completely.
    pub(crate) answered: f64,
    /// Answers per second of its own measuring time.
    pub(crate) rate: f64,
    /// Whatever went wrong, in the generator's words, with how often.
    pub(crate) errors: Vec<(String, f64)>,
    /// Answers after which the connection stayed, if the generator tells.
    pub(crate) kept_alive: Option<f64>,
}

impl Reading {
    /// Why these figures compare nothing, if they do not.
    pub(crate) fn faults(&self, generator: &str) -> Option<String> {
        if let Some((kind, count)) = self.errors.first() {
            return Some(format!("{generator} saw errors: {kind} {count:.0}"));
        }
        (self.answered <= 0.0).then(|| format!("{generator} got no answer"))
    }
}

/// `breme load --json`.
pub(crate) fn of_breme(text: &str) -> Option<Reading> {
    let result: Value = serde_json::from_str(text).ok()?;
    let count = |(kind, count): (&String, &Value)| Some((kind.clone(), count.as_f64()?));
    let mut errors: Vec<_> = result["errors"].as_object()?.iter().filter_map(count).collect();
    let statuses = result["statuses"].as_object()?;
    errors.extend(statuses.iter().filter(|(status, _)| !status.starts_with('2')).filter_map(count));
    Some(Reading {
        answered: result["requests"]["answered"].as_f64()?,
        rate: result["achieved_rate"].as_f64()?,
        errors,
        kept_alive: None,
    })
}

/// wrk prints a line about errors only if there were any, and ends with 0 even so.
pub(crate) fn of_wrk(text: &str) -> Option<Reading> {
    let mut errors = Vec::new();
    if let Some(line) = line_after(text, "Socket errors: ") {
        let mut words = line.split(", ").filter_map(|part| part.split_once(' '));
        errors.extend(words.by_ref().filter_map(|(kind, count)| non_zero(kind, count)));
    }
    errors.extend(line_after(text, "Non-2xx or 3xx responses: ").and_then(|count| non_zero("non-2xx", count)));
    Some(Reading {
        answered: number_before(text, " requests in ")?,
        rate: line_after(text, "Requests/sec:")?.parse().ok()?,
        errors,
        kept_alive: None,
    })
}

/// `h2load`, by time or by number.
pub(crate) fn of_h2load(text: &str) -> Option<Reading> {
    let not_ok = [" failed", " errored", " timeout", " 3xx", " 4xx", " 5xx"];
    let count = |words: &&str| Some((words.trim().to_owned(), number_before(text, words)?));
    Some(Reading {
        answered: number_before(text, " succeeded")?,
        rate: number_before(text, " req/s, ")?,
        errors: not_ok.iter().filter_map(count).filter(|(_, count)| *count > 0.0).collect(),
        kept_alive: None,
    })
}

/// `ab`; a request that failed is counted as complete too, but any failure makes the reading void anyway.
pub(crate) fn of_ab(text: &str) -> Option<Reading> {
    let count = |name: &str| line_after(text, name)?.split(' ').next()?.parse::<f64>().ok();
    let kinds = ["Failed requests:", "Write errors:", "Non-2xx responses:"];
    let error = |kind: &&str| Some((kind.trim_end_matches(':').to_owned(), count(kind)?));
    let mut errors: Vec<_> = kinds.iter().filter_map(error).filter(|(_, count)| *count > 0.0).collect();
    if let Some(protocol) = line_after(text, "SSL/TLS Protocol:").filter(|line| !line.starts_with("TLSv1.3,")) {
        errors.push((format!("not TLS 1.3 but {protocol}"), 1.0));
    }
    Some(Reading {
        answered: count("Complete requests:")?,
        rate: count("Requests per second:")?,
        errors,
        kept_alive: count("Keep-Alive requests:"),
    })
}

fn non_zero(kind: &str, count: &str) -> Option<(String, f64)> {
    let count = count.parse::<f64>().ok().filter(|&count| count > 0.0)?;
    Some((kind.to_owned(), count))
}

/// What stands behind `start` in the line that begins with it.
fn line_after<'a>(text: &'a str, start: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.trim_start().strip_prefix(start)).map(str::trim)
}

/// The number that stands right before the first `words`.
fn number_before(text: &str, words: &str) -> Option<f64> {
    text.split_once(words)?.0.rsplit([' ', '\n']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(reading: &Reading) -> Vec<(&str, f64)> {
        reading.errors.iter().map(|(kind, count)| (kind.as_str(), *count)).collect()
    }

    #[test]
    fn wrk_without_and_with_errors() {
        let good = of_wrk(include_str!("captured/wrk.txt")).unwrap();
        assert_eq!(good, Reading { answered: 62_061.0, rate: 61_314.25, ..Reading::default() });
        assert_eq!(good.faults("wrk"), None);
        let killed = of_wrk(include_str!("captured/wrk-server-killed.txt")).unwrap();
        assert_eq!(errors(&killed), [("read", 11.0), ("write", 29_839.0)]);
        assert_eq!(killed.faults("wrk").unwrap(), "wrk saw errors: read 11");
        let missing = of_wrk(include_str!("captured/wrk-404.txt")).unwrap();
        assert_eq!(errors(&missing), [("non-2xx", 47_441.0)]);
    }

    #[test]
    fn h2load_by_time_and_by_number() {
        let timed = of_h2load(include_str!("captured/h2load.txt")).unwrap();
        assert_eq!(timed, Reading { answered: 485_088.0, rate: 485_088.0, ..Reading::default() });
        let missing = of_h2load(include_str!("captured/h2load-404.txt")).unwrap();
        assert_eq!(errors(&missing), [("failed", 2_000.0), ("4xx", 2_000.0)]);
        let refused = of_h2load(include_str!("captured/h2load-refused.txt")).unwrap();
        assert_eq!(refused.faults("h2load").unwrap(), "h2load got no answer");
    }

    #[test]
    fn ab_with_and_without_connections_that_stay() {
        let good = of_ab(include_str!("captured/ab.txt")).unwrap();
        let expected = Reading { answered: 46_715.0, rate: 46_627.81, errors: Vec::new(), kept_alive: Some(46_715.0) };
        assert_eq!(good, expected);
        let missing = of_ab(include_str!("captured/ab-404.txt")).unwrap();
        assert_eq!(errors(&missing), [("Non-2xx responses", 50_000.0)]);
        let tls = of_ab(include_str!("captured/ab-tls.txt")).unwrap();
        assert_eq!((errors(&tls), tls.kept_alive), (vec![], None));
        assert!(tls.answered > 0.0);
        let old = include_str!("captured/ab-tls.txt").replace("TLSv1.3", "TLSv1.2");
        assert!(of_ab(&old).unwrap().faults("ab").unwrap().contains("TLSv1.2"));
        assert_eq!(of_ab(include_str!("captured/ab-server-killed.txt")), None);
    }

    #[test]
    fn breme_load_with_and_without_errors() {
        let good = of_breme(include_str!("captured/breme.json")).unwrap();
        assert_eq!(good, Reading { answered: 112_069.0, rate: 112_049.0, ..Reading::default() });
        let killed = of_breme(include_str!("captured/breme-server-killed.json")).unwrap();
        assert!(killed.faults("breme").unwrap().contains("saw errors"), "{killed:?}");
        let missing = of_breme(include_str!("captured/breme-404.json")).unwrap();
        assert!(errors(&missing).iter().any(|&(kind, count)| kind == "404" && count > 0.0), "{missing:?}");
        assert_eq!(of_breme("{}"), None);
    }

    #[test]
    fn anything_else_is_no_reading() {
        for text in ["", "nothing", "requests in ", "x succeeded, 1 req/s, "] {
            assert_eq!(
                (of_wrk(text), of_h2load(text), of_ab(text), of_breme(text)),
                (None, None, None, None),
                "{text}"
            );
        }
    }
}
