//! Suggestions for flags of wrk, oha, hey, ab, k6, vegeta, hyperfine and curl that breme has by another name, or not at
//! all. clap's own suggestions use the spelling, and mislead here.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// A flag of another program, and the replacement.
type Tip = (&'static str, &'static str);

const LOAD_TIPS: &[Tip] = &[
    ("-r", "to follow redirects: -L, and --max-redirects N"),
    ("--redirect", "to follow redirects: -L, and --max-redirects N"),
    ("--disable-redirects", "redirects are followed only with -L"),
    ("-s", "to perform several steps: --scenario FILE; Lua is not supported"),
    ("--script", "to perform several steps: --scenario FILE; Lua is not supported"),
    ("-h2", "breme load speaks HTTP/1.0 and HTTP/1.1 only"),
    ("--http2", "breme load speaks HTTP/1.0 and HTTP/1.1 only"),
    ("--http3", "breme load speaks HTTP/1.0 and HTTP/1.1 only"),
    ("--host", "to send another host: -H 'Host: NAME'"),
    ("--user-agent", "to send a header: -H 'User-Agent: …'"),
    ("--disable-compression", "no compression is requested; to request it: -H 'Accept-Encoding: gzip'"),
    ("--threshold", "to fail on a condition: --fail-if 'p99 > 500ms or errors > 1%'"),
    ("--thresholds", "to fail on a condition: --fail-if 'p99 > 500ms or errors > 1%'"),
    ("--rand-regex-url", "to vary the URL: placeholders in its path, as in URL/{uniform:0:9}"),
    ("--burst-rate", "to send in bursts: --stages, as in --stages 1s@4,2s@0"),
    ("--burst-delay", "to send in bursts: --stages, as in --stages 1s@4,2s@0"),
    ("--output-format", "to print another format: --format json"),
    ("-j", "to print JSON: --json"),
    ("--iterations", "to set the number of requests: -n N"),
    ("--workers", "to set the number of connections: -c N"),
    ("--max-workers", "to set the number of connections: -c N"),
    ("--cpus", "to set the number of threads: -t N"),
];

const VERSUS_TIPS: &[Tip] = &[
    ("-w", "every trial has its own warm-up; breme versus compares servers, not the run times of commands"),
    ("--warmup", "every trial has its own warm-up; breme versus compares servers, not the run times of commands"),
    ("-r", "the number of trials follows from their noise; to set the length of each: -d TIME"),
    ("-P", "to vary a setting: --vary NAME=1,2,4, with ${NAME} in the command"),
    ("-L", "to vary a setting: --vary NAME=1,2,4, with ${NAME} in the command"),
    ("--parameter-scan", "to vary a setting: --vary NAME=1,2,4, with ${NAME} in the command"),
    ("--parameter-list", "to vary a setting: --vary NAME=1,2,4, with ${NAME} in the command"),
    ("--export-markdown", "to get Markdown: breme report --format markdown RUN"),
    ("--export-json", "to get JSON: breme report --format json RUN"),
];

const RUN_TIPS: &[Tip] = &[
    ("--vus", "to load a URL: breme load -c USERS -d TIME URL; breme run is for experiments"),
    ("-u", "to load a URL: breme load -c USERS -d TIME URL; breme run is for experiments"),
    ("--duration", "to load a URL: breme load -c USERS -d TIME URL; breme run is for experiments"),
    ("-d", "to load a URL: breme load -c USERS -d TIME URL; breme run is for experiments"),
    ("--iterations", "to load a URL: breme load -n REQUESTS URL; breme run is for experiments"),
];

const BLOCKS_TIP: &str =
    "--blocks extends a finished run: --resume RUN --blocks N; for a new run set blocks in [design]";

const COMMAND_TIPS: &[Tip] = &[
    ("attack", "to send requests at a rate: breme load -R 50 -d 5s --targets FILE (- for standard input)"),
    ("plot", "to plot a load: breme load -o result.html"),
    ("bench", "to load a URL: breme load URL; to compare servers: breme versus A B"),
    ("test", "to load a URL: breme load URL"),
    ("get", "to load a URL: breme load URL"),
    // In a build without them.
    ("import", "this build has no import: install the package breme"),
    ("proxy", "this build has no proxy: install the package breme"),
    ("session", "this build has no session cluster: install the package breme"),
    ("watch", "this build has no watch: install the package breme"),
    ("wiki", "this build has no wiki: install the package breme"),
];

/// Replaces clap's suggestion if there is a better one.
pub fn improve(error: clap::Error) -> clap::Error {
    let Some(tip) = tip_for(&error, &arguments()) else { return error };
    let mut error = error;
    for kind in [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand, ContextKind::SuggestedCommand] {
        error.remove(kind);
    }
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    error
}

/// Refuses a load whose long flag has one dash, and which clap takes for a short flag with its value: `-max-workers=5`,
/// here `-m` with the value `ax-workers=5`.
pub fn refuse_single_dashes(program: impl FnOnce() -> clap::Command) -> Result<(), clap::Error> {
    match misread(&arguments()) {
        Some(problem) => Err(program().error(ErrorKind::UnknownArgument, problem)),
        None => Ok(()),
    }
}

fn misread(arguments: &[String]) -> Option<String> {
    let (_, rest) = arguments.split_first().filter(|(command, _)| *command == "load")?;
    let (argument, tip) = single_dash_tip("load", rest, LOAD_TIPS)?;
    Some(format!("unexpected argument '{argument}' found\n\n  tip: {tip}"))
}

fn arguments() -> Vec<String> {
    std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned()).collect()
}

fn tip_for(error: &clap::Error, arguments: &[String]) -> Option<String> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let command = arguments.first()?;
    let is_of_blocks = || text(ContextKind::InvalidArg).is_some_and(|flag| flag.starts_with("--blocks"));
    if error.kind() == ErrorKind::ArgumentConflict && command == "run" && is_of_blocks() {
        return Some(BLOCKS_TIP.to_owned());
    }
    if error.kind() == ErrorKind::InvalidSubcommand {
        return command_tip(command, &arguments[1..]);
    }
    let tips = match command.as_str() {
        "load" => LOAD_TIPS,
        "versus" => VERSUS_TIPS,
        "run" => RUN_TIPS,
        _ => return None,
    };
    if let Some((_, tip)) = single_dash_tip(command, &arguments[1..], tips) {
        return Some(tip);
    }
    match error.kind() {
        ErrorKind::UnknownArgument => find(tips, text(ContextKind::InvalidArg)?).map(str::to_owned),
        ErrorKind::ValueValidation | ErrorKind::InvalidValue if command == "load" => {
            value_tip(text(ContextKind::InvalidArg)?, text(ContextKind::InvalidValue)?)
        }
        _ => None,
    }
}

fn find(tips: &'static [Tip], flag: &str) -> Option<&'static str> {
    let name = flag.split('=').next().unwrap_or(flag);
    tips.iter().find(|(other, _)| *other == name).map(|(_, tip)| *tip)
}

fn command_tip(command: &str, arguments: &[String]) -> Option<String> {
    let is_url = command.contains("://") || command.contains(':') || command.starts_with("localhost");
    if is_url {
        return Some(format!("to load a URL: breme load {command}"));
    }
    if command.starts_with('-') || command.contains(' ') && arguments.len() == 1 {
        return Some("to compare servers: breme versus 'COMMAND' 'COMMAND'".to_owned());
    }
    find(COMMAND_TIPS, command).map(str::to_owned)
}

/// Go's long flags have one dash: `-duration=5s`, here `-d` with the value `uration=5s`. The first such argument, and
/// its tip.
fn single_dash_tip<'a>(command: &str, arguments: &'a [String], tips: &'static [Tip]) -> Option<(&'a str, String)> {
    let is_own = |name: &str| {
        let definition = <breme_load_command::LoadArgs as clap::Args>::augment_args(clap::Command::new("load"));
        command == "load"
            && definition.get_arguments().any(|argument| {
                argument.get_long() == Some(name) || argument.get_all_aliases().is_some_and(|all| all.contains(&name))
            })
    };
    arguments.iter().take_while(|argument| *argument != "--").find_map(|argument| {
        let name = argument.strip_prefix('-')?;
        let word = name.split('=').next()?;
        if word.len() < 3
            || !word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')
            || word.starts_with('-')
        {
            return None;
        }
        let tip = match find(tips, &format!("--{word}")) {
            Some(tip) => tip.to_owned(),
            None if is_own(word) => format!("a flag of several letters begins with two dashes: --{name}"),
            None => return None,
        };
        Some((argument.as_str(), tip))
    })
}

/// Flags that have another meaning in other programs.
fn value_tip(flag: &str, value: &str) -> Option<String> {
    let is_number = value.starts_with(|first: char| first.is_ascii_digit());
    let tip = match flag.split(' ').next()? {
        "--duration" if !is_number => "-d is the duration; to send a body: -b BODY",
        "--threads" if is_number => "-t is the number of threads; to set a time limit: --timeout TIME",
        "--pipeline" => "-p is the depth of a pipeline; to send a body from a file: -b @FILE",
        "--output" => "-o is a file; to print another format: --format json",
        _ => return None,
    };
    Some(tip.to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    #[command(name = "breme")]
    enum Program {
        Load(Box<breme_load_command::LoadArgs>),
        #[cfg(target_os = "linux")]
        Versus(Box<crate::laboratory::VersusArgs>),
        #[cfg(target_os = "linux")]
        Run(Box<crate::laboratory::RunArgs>),
    }

    fn tip(line: &str) -> Option<String> {
        let arguments: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let error = Program::try_parse_from(["breme".to_owned()].iter().chain(&arguments)).err()?;
        tip_for(&error, &arguments)
    }

    #[test]
    fn flags_of_others_have_a_tip_and_ours_need_none() {
        let check = |line: &str, expected: &str| {
            let found = tip(line).unwrap_or_else(|| panic!("{line}: no tip"));
            assert!(found.contains(expected), "{line}: {found}");
        };
        check("load --http2 http://a", "HTTP/1.1 only");
        check("load -s x.lua http://a", "--scenario");
        check("load --threshold p99 http://a", "--fail-if");
        check("load -duration=5s http://a", "two dashes: --duration=5s");
        check("load -disable-keepalive http://a", "two dashes: --disable-keepalive");
        check("load -d {} http://a", "-b BODY");
        check("load -t 20s http://a", "--timeout");
        check("versus --warmup 3 a b", "warm-up");
        check("run --blocks 12 a.toml", "--resume RUN");
        check("attack -duration=5s", "breme load");
        check("localhost:8080", "breme load localhost:8080");
        assert_eq!(tip("load --frobnicate http://a"), None);
    }

    #[test]
    fn long_flags_with_one_dash_are_no_values_of_short_ones() {
        let problem = |line: &str| misread(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        let check = |line: &str, expected: &str| {
            assert!(tip(line).is_none(), "{line}: clap finds it");
            let found = problem(line).unwrap_or_else(|| panic!("{line}: no problem"));
            assert!(found.contains(expected), "{line}: {found}");
        };
        check(
            "load -max-workers=5 http://a",
            "'-max-workers=5' found\n\n  tip: to set the number of connections: -c N",
        );
        check("load -body=x http://a", "two dashes: --body=x");
        for line in ["load -c5 -d1s http://a", "load -bx=1 http://a", "load -mPOST http://a", "site -max-workers=5"] {
            assert_eq!(problem(line), None, "{line}");
        }
    }

    #[test]
    fn no_tip_is_for_a_flag_of_ours() {
        let of = |command: clap::Command, tips: &[Tip]| {
            for (flag, _) in tips {
                let is_ours = |argument: &clap::Arg| match flag.strip_prefix("--") {
                    Some(long) => argument.get_long() == Some(long),
                    None => flag.len() == 2 && argument.get_short() == flag.chars().nth(1),
                };
                assert!(!command.get_arguments().any(is_ours), "{flag} is a flag of breme {}", command.get_name());
            }
        };
        of(<breme_load_command::LoadArgs as clap::Args>::augment_args(clap::Command::new("load")), LOAD_TIPS);
        #[cfg(target_os = "linux")]
        of(<crate::laboratory::VersusArgs as clap::Args>::augment_args(clap::Command::new("versus")), VERSUS_TIPS);
    }
}
