//! The metrics of `/metrics`, read back for the messages that carry them.

/// A metric with its samples.
#[derive(Debug, Default)]
pub(super) struct Family<'a> {
    pub(super) name: &'a str,
    /// `counter`, `gauge`, `histogram` or another type of OpenMetrics.
    pub(super) kind: &'a str,
    pub(super) help: &'a str,
    /// `seconds`, `bytes`, or nothing.
    pub(super) unit: &'a str,
    pub(super) samples: Vec<Sample<'a>>,
}

#[derive(Debug, PartialEq)]
pub(super) struct Sample<'a> {
    pub(super) name: &'a str,
    pub(super) labels: Vec<(&'a str, String)>,
    pub(super) value: f64,
}

/// The families of an exposition whose names begin with `prefix`.
pub(super) fn families<'a>(exposition: &'a str, prefix: &str) -> Vec<Family<'a>> {
    let mut families: Vec<Family<'a>> = Vec::new();
    for line in exposition.lines() {
        match line.strip_prefix("# ").and_then(|comment| comment.split_once(' ')) {
            Some((word, rest)) => {
                let (name, text) = rest.split_once(' ').unwrap_or((rest, ""));
                if families.last().is_none_or(|last| last.name != name) {
                    families.push(Family { name, ..Family::default() });
                }
                if let Some(last) = families.last_mut() {
                    match word {
                        "HELP" => last.help = text,
                        "TYPE" => last.kind = text,
                        "UNIT" => last.unit = text,
                        _ => {}
                    }
                }
            }
            None => {
                if let (Some(last), Some(sample)) = (families.last_mut(), sample(line)) {
                    last.samples.push(sample);
                }
            }
        }
    }
    families.retain(|family| family.name.starts_with(prefix));
    families
}

fn sample(line: &str) -> Option<Sample<'_>> {
    let (series, value) = line.rsplit_once(' ')?;
    let (name, mut rest) = series.split_once('{').unwrap_or((series, "}"));
    let mut labels = Vec::new();
    while let Some((label, quoted)) = rest.split_once("=\"") {
        let mut value = String::new();
        let mut letters = quoted.char_indices();
        let end = loop {
            match letters.next()? {
                (end, '"') => break end,
                (_, '\\') => value.push(match letters.next()?.1 {
                    'n' => '\n',
                    letter => letter,
                }),
                (_, letter) => value.push(letter),
            }
        };
        labels.push((label, value));
        rest = quoted[end + 1..].trim_start_matches(',');
    }
    Some(Sample { name, labels, value: value.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_unescaped() {
        let sample = sample("breme_watch_up{target=\"a \\\"b\\\" \\\\ {c}, \\n\",state=\"up\"} 1.5").unwrap();
        let labels = vec![("target", "a \"b\" \\ {c}, \n".to_owned()), ("state", "up".to_owned())];
        assert_eq!(sample, Sample { name: "breme_watch_up", labels, value: 1.5 });
    }

    #[test]
    fn families_have_their_descriptions_and_samples() {
        let exposition = "# HELP breme_a_time_seconds Time.\n# TYPE breme_a_time_seconds gauge\n\
            # UNIT breme_a_time_seconds seconds\nbreme_a_time_seconds 1\n# HELP process_x X.\n# TYPE process_x counter\n\
            process_x_total 1\n# HELP breme_a_y Y.\n# TYPE breme_a_y counter\nbreme_a_y_total 2\n# EOF\n";
        let found = families(exposition, "breme_a_");
        let described: Vec<_> = found.iter().map(|it| (it.name, it.kind, it.help, it.unit, it.samples.len())).collect();
        let expected =
            [("breme_a_time_seconds", "gauge", "Time.", "seconds", 1), ("breme_a_y", "counter", "Y.", "", 1)];
        assert_eq!(described, expected);
    }
}
