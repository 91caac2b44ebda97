//! Generates an experiment from contenders, load and variations.

use std::fmt::Write;

use breme_command::server::at_least_one;
use breme_experiment::placeholder;

use super::contender::{Contender, ContenderSource, LOAD, SERVER, Start};
use super::positive_rate;

/// Names of other placeholders: `${port}`.
const RESERVED: [&str; 5] = ["port", "folder", "breme", "experiment", "shared"];
/// Settings of the load that can vary.
const LOAD_SETTINGS: [&str; 5] = ["connections", "pipeline", "rate", "threads", "think"];

/// The load on each server.
#[derive(Clone, Debug)]
pub(super) struct Load {
    pub(super) path: String,
    pub(super) connections: usize,
    pub(super) rate: Option<f64>,
    pub(super) pipeline: usize,
    pub(super) headers: Vec<(String, String)>,
    pub(super) duration: String,
    pub(super) measure: String,
}

/// `connections=1,10`, `server.driver=threads,events`, `NAME=a,b`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Variation {
    name: String,
    is_server_flag: bool,
    levels: Vec<String>,
}

impl Variation {
    /// Parses a value of `--vary`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not NAME=A,B; write connections=1,10,100 or server.threads=1,2");
        let (name, levels) = text.split_once('=').ok_or_else(wrong)?;
        let (is_server_flag, name) =
            name.strip_prefix("server.").map_or((false, name), |flag| (true, flag.trim_start_matches('-')));
        let is_word = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
        if !name.starts_with(|first: char| first.is_ascii_alphabetic()) || !name.chars().all(is_word) {
            return Err(wrong());
        }
        let levels: Vec<String> = levels.split(',').map(|level| level.trim().to_owned()).collect();
        if levels.len() < 2 || levels.iter().any(String::is_empty) {
            return Err(format!("{text:?} has fewer than two values; separate them by commas"));
        }
        if let Some(level) = levels.iter().find(|level| level.contains('\'')) {
            return Err(format!("the value {level:?} contains a quotation mark"));
        }
        Ok(Self { name: name.to_owned(), is_server_flag, levels })
    }

    fn placeholder(&self) -> String {
        format!("${{{}}}", self.name)
    }

    fn is_of_load(&self) -> bool {
        !self.is_server_flag && LOAD_SETTINGS.contains(&self.name.as_str())
    }

    /// Settings of the load must be valid.
    fn check_levels(&self) -> Result<(), String> {
        let check = |level: &String| match self.name.as_str() {
            _ if !self.is_of_load() => Ok(()),
            "connections" | "pipeline" | "threads" => at_least_one(level).map(drop),
            "rate" => positive_rate(level).map(drop),
            _ => Ok(()),
        };
        self.levels.iter().try_for_each(|level| check(level).map_err(|problem| format!("{level}: {problem}")))
    }

    /// Whether each server is compared across the levels, rather than with the others at each level.
    fn is_of_server(&self) -> bool {
        !self.is_of_load()
    }
}

/// There must be two sides to compare, and each variation must have an effect.
pub(super) fn check_variations(variations: &[Variation], sources: &[ContenderSource]) -> Result<(), String> {
    if sources.len() == 1 && variations.is_empty() {
        return Err(String::from("one server has nothing to be compared with; give a second one, or --vary NAME=A,B"));
    }
    for (position, variation) in variations.iter().enumerate() {
        let name = &variation.name;
        let is_reserved = [SERVER, LOAD].iter().chain(&RESERVED).any(|reserved| reserved == name);
        if is_reserved || variations[..position].iter().any(|other| other.name == *name) {
            return Err(format!("--vary {name}: the name is taken; use another one"));
        }
        if sources.iter().any(|source| source.name == *name) {
            return Err(format!("--vary {name}: a server has this name; use another one: NAME='command'"));
        }
        variation.check_levels().map_err(|problem| format!("--vary {name}: {problem}"))?;
        let is_used = sources.iter().any(|source| match &source.start {
            Start::Command(command) => variation.is_server_flag || command.contains(&variation.placeholder()),
            Start::Running(_) => false,
        });
        if variation.is_of_server() && !is_used {
            let settings = LOAD_SETTINGS.join(", ");
            return Err(format!(
                "--vary {name} changes nothing; vary a setting of the load ({settings}), a flag of a command \
                 (server.FLAG), or write {} in a command",
                variation.placeholder()
            ));
        }
    }
    Ok(())
}

/// A command with the first level of each variation.
pub(super) fn first_variant(command: &str, variations: &[Variation]) -> String {
    let command = with_flags(command, variations);
    variations
        .iter()
        .fold(command, |command, variation| command.replace(&variation.placeholder(), &variation.levels[0]))
}

fn with_flags(command: &str, variations: &[Variation]) -> String {
    let flags = variations.iter().filter(|variation| variation.is_server_flag);
    flags.fold(command.to_owned(), |command, flag| format!("{command} --{} {}", flag.name, flag.placeholder()))
}

/// Runs the command in the user's folder, not in that of the subject.
pub(super) fn shell(command: &str, folder: &str) -> Vec<String> {
    let folder = folder.replace('\'', r"'\''");
    vec!["sh".to_owned(), "-c".to_owned(), format!("cd '{folder}' && {command}")]
}

/// A text of the user in which an experiment finds no placeholder.
fn without_placeholders(text: &str) -> String {
    let mut escaped = String::new();
    let mut done = 0;
    for found in placeholder::find(text) {
        escaped.push_str(&text[done..found.range.start]);
        escaped.push('$');
        done = found.range.start;
    }
    escaped.push_str(&text[done..]);
    // The name of a factor, and what would be its escape.
    if text.starts_with('$') && !text.starts_with("${") { format!("${escaped}") } else { escaped }
}

pub(super) fn text(contenders: &[Contender], load: &Load, variations: &[Variation], folder: &str) -> String {
    let names: Vec<&str> = contenders.iter().map(|contender| contender.name.as_str()).collect();
    let mut text = format!(
        "#:schema experiment.schema.json\ntitle = {}\nquestion = {}\n",
        quoted(&title(&names, variations)),
        quoted(&question(&names, load, variations))
    );
    let _ = writeln!(text, "measures = [\"{}\"]", measures(load, contenders).join("\", \""));
    for contender in contenders {
        write_subject(&mut text, contender, contenders, variations, folder);
    }
    write_workload(&mut text, &names, load, variations);
    write_factors(&mut text, &names, variations);
    let _ = write!(
        text,
        "\n[design]\nduration = {}\nblocks = {{ least = 6, most = 12 }}\npause = \"100ms\"\n",
        quoted(&load.duration)
    );
    write_hypotheses(&mut text, &names, load, variations);
    text
}

fn title(names: &[&str], variations: &[Variation]) -> String {
    let varied: Vec<&str> = variations.iter().map(|variation| variation.name.as_str()).collect();
    match (names, varied.is_empty()) {
        ([one], _) => format!("{one}, by {}", varied.join(" and ")),
        (_, true) => names.join(" versus "),
        (_, false) => format!("{}: {}", names.join(" versus "), varied.join(", ")),
    }
}

fn question(names: &[&str], load: &Load, variations: &[Variation]) -> String {
    let measure = &load.measure;
    match names {
        [one] => {
            let levels: Vec<&str> = variations.iter().map(|variation| variation.name.as_str()).collect();
            format!("Does the `{measure}` of {one} depend on {}?", levels.join(" and "))
        }
        _ => format!("Which of {} has the better `{measure}`?", names.join(", ")),
    }
}

/// The decisive measure, and the usual ones. The CPU time of a server that was not started here is unknown.
fn measures(load: &Load, contenders: &[Contender]) -> Vec<String> {
    let are_started = contenders.iter().all(|contender| matches!(contender.start, Start::Command(_)));
    let usual = ["rate", "mean", "p99", "errors"].into_iter().chain(are_started.then_some("cpu"));
    let mut names = vec![load.measure.as_str()];
    names.extend(usual.filter(|name| *name != load.measure));
    names.into_iter().map(|name| format!("{name}({LOAD})")).collect()
}

fn write_subject(text: &mut String, contender: &Contender, all: &[Contender], variations: &[Variation], folder: &str) {
    let _ = write!(text, "\n[subject.{}]\n", contender.name);
    if let Start::Command(command) = &contender.start {
        let words = shell(&with_flags(command, variations), &without_placeholders(folder));
        let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
        let _ = writeln!(text, "command = [{}]", words.join(", "));
        let ports = if contender.url.contains("${port}") { "[\"port\"]" } else { "[]" };
        let _ = writeln!(text, "ports = {ports}");
        // Two servers on one port cannot run at the same time.
        if all.iter().filter(|other| other.url == contender.url).count() > 1 && !contender.url.contains("${port}") {
            let _ = writeln!(text, "restart = \"trial\"");
        }
    }
    let _ = writeln!(text, "url = {}", quoted(&contender.url));
}

fn write_workload(text: &mut String, names: &[&str], load: &Load, variations: &[Variation]) {
    let to = if names.len() > 1 { format!("${SERVER}") } else { names[0].to_owned() };
    let _ = write!(
        text,
        "\n[workload.{LOAD}]\nto = {}\nrequest = {}\n",
        quoted(&to),
        quoted(&without_placeholders(&load.path))
    );
    let mut setting = |name: &str, value: Option<String>| {
        let is_varied = variations.iter().any(|variation| variation.is_of_load() && variation.name == name);
        let value = if is_varied { Some(format!("\"${name}\"")) } else { value };
        if let Some(value) = value {
            let _ = writeln!(text, "{name} = {value}");
        }
    };
    setting("connections", Some(load.connections.to_string()));
    setting("pipeline", (load.pipeline > 1).then(|| load.pipeline.to_string()));
    setting("rate", load.rate.map(|rate| rate.to_string()));
    setting("threads", None);
    setting("think", None);
    if !load.headers.is_empty() {
        let headers = load.headers.iter();
        let headers =
            headers.map(|(name, value)| format!("{} = {}", quoted(name), quoted(&without_placeholders(value))));
        let _ = writeln!(text, "headers = {{ {} }}", headers.collect::<Vec<_>>().join(", "));
    }
}

fn write_factors(text: &mut String, names: &[&str], variations: &[Variation]) {
    text.push_str("\n[factor]\n");
    if names.len() > 1 {
        let _ = writeln!(text, "{SERVER} = [\"{}\"]", names.join("\", \""));
    }
    for variation in variations {
        let levels: Vec<String> = variation.levels.iter().map(|level| literal(level)).collect();
        let _ = writeln!(text, "{} = [{}]", variation.name, levels.join(", "));
    }
}

/// Every server against the first one; with one server, every level against the first one of its variation.
fn write_hypotheses(text: &mut String, names: &[&str], load: &Load, variations: &[Variation]) {
    let factor = variations.first().map(|variation| (variation.name.as_str(), &variation.levels));
    let levels: Vec<&str> = match (names, factor) {
        ([_], Some((_, levels))) => levels.iter().map(String::as_str).collect(),
        _ => names.to_vec(),
    };
    let name = if names.len() > 1 { SERVER } else { factor.map_or(SERVER, |(name, _)| name) };
    let measure = &load.measure;
    for level in &levels[1..] {
        let first = levels[0];
        let says = match names.len() {
            1 => format!("{measure} differs between {name} {first} and {level}"),
            _ => format!("{measure} differs between {first} and {level}"),
        };
        let claim = format!("{measure}({LOAD}) [{name}='{first}'] != {measure}({LOAD}) [{name}='{level}']");
        let _ = write!(text, "\n[[hypothesis]]\nsays = {}\nexpect = {}\n", quoted(&says), quoted(&claim));
    }
}

/// A number remains a number, if TOML writes it like this: `007` and `.5` are texts.
fn literal(level: &str) -> String {
    let is_number = match level.parse::<toml::Value>() {
        Ok(number @ (toml::Value::Integer(_) | toml::Value::Float(_))) => number.to_string() == level,
        _ => false,
    };
    if is_number { level.to_owned() } else { quoted(level) }
}

fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variation(text: &str) -> Variation {
        Variation::parse(text).unwrap()
    }

    #[test]
    fn variations_need_two_values() {
        assert_eq!(variation("server.driver=a, b").levels, ["a", "b"]);
        assert!(
            ["connections", "connections=1", "=1,2", "a b=1,2", "a=1,"]
                .map(Variation::parse)
                .iter()
                .all(Result::is_err)
        );
    }

    #[test]
    fn flags_of_the_server_are_appended() {
        let variations = [variation("server.driver=threads,events"), variation("size=1,2")];
        assert_eq!(first_variant("serve --size ${size}", &variations), "serve --size 1 --driver threads");
    }

    #[test]
    fn a_variation_without_effect_is_refused() {
        let sources = super::super::contender::parse_all(&["./a".to_owned(), "http://b".to_owned()]).unwrap();
        assert_eq!(check_variations(&[variation("connections=1,2")], &sources), Ok(()));
        assert_eq!(check_variations(&[variation("server.x=1,2")], &sources), Ok(()));
        assert!(check_variations(&[variation("conections=1,2")], &sources).unwrap_err().contains("connections"));
        assert!(check_variations(&[], &sources[..1]).unwrap_err().contains("--vary"));
    }

    #[test]
    fn quotes_in_folders_reach_the_shell() {
        assert_eq!(shell("./a", "/x'y")[2], r"cd '/x'\''y' && ./a");
    }

    #[test]
    fn a_folder_has_no_placeholders() {
        let start = Start::Command(String::from("./a ${port}"));
        let url = String::from("http://127.0.0.1:${port}");
        let contender = Contender { name: String::from("a"), start, url };
        let mut text = String::new();
        write_subject(&mut text, &contender, std::slice::from_ref(&contender), &[], "/${x}");
        assert!(text.contains("cd '/$${x}' && ./a ${port}"), "{text}");
    }

    #[test]
    fn an_experiment_has_the_user_s_texts_and_numbers() {
        for (text, expected) in [("/a", "/a"), ("$a", "$$a"), ("x ${a}", "x $${a}"), ("${a}", "$${a}"), ("$5", "$$5")] {
            assert_eq!(without_placeholders(text), expected);
        }
        for (level, expected) in [("7", "7"), ("0.5", "0.5"), ("007", "\"007\""), (".5", "\".5\""), ("a", "\"a\"")] {
            assert_eq!(literal(level), expected);
        }
        let contender = Contender {
            name: String::from("a"),
            start: Start::Running(String::from("http://a")),
            url: String::from("http://a"),
        };
        let load = Load {
            path: String::from("/${x}"),
            connections: 1,
            rate: None,
            pipeline: 1,
            headers: vec![(String::from("X"), String::from("$a"))],
            duration: String::from("1s"),
            measure: String::from("rate"),
        };
        let text = text(&[contender], &load, &[variation("connections=1,2")], "/");
        let plan = super::super::super::experiment::read_text(&text, std::path::Path::new("/"))
            .unwrap_or_else(|failure| panic!("{failure:?}"));
        let trial = plan.trial(&plan.trials()[0]).unwrap();
        assert!(trial.workloads[0].texts().any(|text| text == "--header=X: $a"), "{:?}", trial.workloads[0].arguments);
    }
}
