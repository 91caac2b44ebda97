//! Requests, errors, bytes, connections.

use std::fmt::Write;

use breme_base::terminal::{GREEN, RED, Style};
use breme_base::{grouped, plural};
use breme_load_result::{AvailabilitySummary, LoadOutcome, RedirectsSummary};

use crate::figures::{duration, size};

pub(super) fn counts(outcome: &LoadOutcome, style: Style) -> String {
    let mut text = requests(outcome, style) + &redirects(outcome) + &errors(outcome, style);
    if outcome.requests.answered > 0 {
        text += &traffic(outcome);
        let _ = writeln!(text, "seed       {}", outcome.settings.seed);
    }
    text
}

fn requests(outcome: &LoadOutcome, style: Style) -> String {
    let requests = &outcome.requests;
    let errors: u64 = outcome.errors.values().sum();
    let mut text = String::new();
    let _ = write!(text, "requests   {} issued, {} answered, ", grouped(requests.issued), grouped(requests.answered));
    let error_text = plural(errors, "error");
    let _ =
        writeln!(text, "{}", if errors == 0 { style.paint(GREEN, &error_text) } else { style.paint(RED, &error_text) });
    let statuses: Vec<String> =
        outcome.statuses.iter().map(|(status, count)| format!("{status}: {}", grouped(*count))).collect();
    if !statuses.is_empty() {
        let _ = writeln!(text, "statuses   {}", statuses.join("   "));
    }
    text
}

fn redirects(outcome: &LoadOutcome) -> String {
    let mut text = String::new();
    if let Some(RedirectsSummary { followed, not_followed }) = outcome.redirects {
        let _ = write!(text, "redirects  {} followed", grouped(followed));
        if not_followed > 0 {
            let _ =
                write!(text, "; {} not followed: to other hosts, too many in a row, or invalid", grouped(not_followed));
        }
        text.push('\n');
    }
    text
}

fn errors(outcome: &LoadOutcome, style: Style) -> String {
    let mut text = String::new();
    let kinds: Vec<String> =
        outcome.errors.iter().map(|(kind, count)| format!("{kind}: {}", grouped(*count))).collect();
    if !kinds.is_empty() {
        let _ = writeln!(text, "errors     {}", style.paint(RED, &kinds.join("   ")));
        text += &gaps(outcome);
    }
    text
}

/// Of a run with errors, in which some response was as expected.
fn gaps(outcome: &LoadOutcome) -> String {
    if outcome.requests.ok == 0 {
        return String::new();
    }
    let AvailabilitySummary { gap_ns, gap_from_ns, user_gap_ns, refused, recovered_ns, .. } = outcome.availability;
    let (gap, from, user_gap) = (duration(gap_ns), duration(gap_from_ns), duration(user_gap_ns));
    let refused = if refused == 0 { String::new() } else { format!("; {} refused", grouped(refused)) };
    let end = recovered_ns.map_or_else(
        || String::from("; no successful response after the last error"),
        |nanos| format!("; no error after {}", duration(nanos)),
    );
    format!("gaps       {gap} without a successful response (from {from}), {user_gap} for one user{refused}{end}\n")
}

/// Bytes, connections, and their TLS.
fn traffic(outcome: &LoadOutcome) -> String {
    let (bytes, connections) = (&outcome.bytes, &outcome.connections);
    let mut text = String::new();
    let _ = writeln!(
        text,
        "bytes      {} received, {} of it response bodies; {} sent",
        size(bytes.received),
        size(bytes.content),
        size(bytes.sent)
    );
    let _ = writeln!(
        text,
        "opened     {}, {}",
        plural(connections.opened, "connection"),
        plural(connections.reconnects, "reconnection")
    );
    if let Some(tls) = &outcome.tls {
        let full = outcome.handshake_time.count.saturating_sub(connections.resumed);
        let (full, resumed) = (plural(full, "full handshake"), grouped(connections.resumed));
        let _ = writeln!(text, "TLS        {} with {}, {full}, {resumed} resumed", tls.version, tls.cipher_suite);
    }
    text
}
