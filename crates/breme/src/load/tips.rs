//! Tips for flags that wrk, oha, hey, ab and curl have and `breme load` has by another name, or not at all. clap's own
//! suggestions go by spelling, and mislead here.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// A flag of another program, and what to do instead.
const TIPS: [(&str, &str); 27] = [
    ("-x", "to use a proxy: --proxy http://HOST:PORT"),
    ("-u", "to authenticate: -H 'Authorization: Basic …'"),
    ("-a", "to authenticate: -H 'Authorization: Basic …'"),
    ("-A", "to send a header: -H 'Accept: …'"),
    ("-T", "to send a header: -H 'Content-Type: …'"),
    ("-D", "to send a body from a file: -b @FILE"),
    ("-F", "to send a form: -b @FILE -H 'Content-Type: multipart/form-data; boundary=…'"),
    ("-L", "redirects are not followed; load the final URL"),
    ("-s", "to perform several steps: --scenario FILE"),
    ("-4", "to choose the address family, write the address in the URL: http://127.0.0.1/"),
    ("-6", "to choose the address family, write the address in the URL: http://[::1]/"),
    ("--ipv4", "to choose the address family, write the address in the URL: http://127.0.0.1/"),
    ("--ipv6", "to choose the address family, write the address in the URL: http://[::1]/"),
    ("--latency", "response times are always reported"),
    ("--latencies", "response times are always reported"),
    ("--print-latency", "response times are always reported"),
    ("--http2", "only HTTP/1.0 and HTTP/1.1 are supported"),
    ("--http3", "only HTTP/1.0 and HTTP/1.1 are supported"),
    ("--unix-socket", "Unix sockets are not supported; let the server listen on 127.0.0.1"),
    ("--resolve", "to choose the address: http://ADDRESS:PORT/PATH with -H 'Host: NAME'"),
    ("--connect-to", "to choose the address: http://ADDRESS:PORT/PATH with -H 'Host: NAME'"),
    ("--host", "to send another host: -H 'Host: NAME'"),
    ("--urls-from-file", "to request several URLs: --targets FILE"),
    ("--no-tui", "to hide the progress: --quiet"),
    ("--script", "to perform several steps: --scenario FILE"),
    ("--threshold", "to fail on a condition: --expect-status, --expect-contains"),
    ("--user-agent", "to send a header: -H 'User-Agent: …'"),
];
const RATE_TIP: &str = "-q hides the progress; to set a rate: -R RATE";

/// Replaces clap's suggestion where we know better.
pub fn improve(mut error: clap::Error) -> clap::Error {
    let mut arguments = std::env::args().skip(1);
    if error.kind() != ErrorKind::UnknownArgument || arguments.next().as_deref() != Some("load") {
        return error;
    }
    let is_quiet = arguments.any(|argument| argument == "-q");
    if let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidArg)
        && let Some(tip) = tip(unknown, is_quiet)
    {
        error.remove(ContextKind::SuggestedArg);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

fn tip(unknown: &str, is_quiet: bool) -> Option<&'static str> {
    let name = unknown.split('=').next().unwrap_or(unknown);
    let is_number = || unknown.parse::<f64>().is_ok();
    match TIPS.iter().find(|(flag, _)| *flag == name) {
        Some((_, tip)) => Some(tip),
        None => (is_quiet && is_number()).then_some(RATE_TIP),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_others_have_a_tip_and_ours_need_none() {
        assert_eq!(tip("--latency", false), Some("response times are always reported"));
        assert_eq!(tip("--resolve=a:80:b", false).map(|tip| tip.starts_with("to choose the address")), Some(true));
        assert_eq!((tip("100", true), tip("100", false), tip("--frobnicate", true)), (Some(RATE_TIP), None, None));
        let command = <crate::load::Args as clap::Args>::augment_args(clap::Command::new("load"));
        for (flag, _) in TIPS {
            let is_ours = |argument: &clap::Arg| match flag.strip_prefix("--") {
                Some(long) => argument.get_long() == Some(long),
                None => argument.get_short() == flag.chars().nth(1),
            };
            assert!(!command.get_arguments().any(is_ours), "{flag} is a flag of breme load");
        }
    }
}
