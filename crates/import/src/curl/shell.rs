//! The words of commands, as bash reads them: quotes, line breaks and comments, without expansions.

use std::iter::Peekable;
use std::str::Chars;

use super::ansi_c;

/// A command of a text, up to the end of its line or a `;`, `&&`, `||` or `|`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ShellCommand {
    pub(super) words: Vec<String>,
    /// Variables and substitutions, such as `$ID`, whose values only a shell knows.
    pub(super) expansions: Vec<String>,
    /// Whether it reads the output of the one before.
    pub(super) is_filter: bool,
}

/// # Errors
/// A quote or a here-document that is not closed, or an escape that means no text.
pub(super) fn commands(text: &str) -> Result<Vec<ShellCommand>, String> {
    let mut reader = Reader::new(text);
    reader.read().map_err(|problem| format!("command {}: {problem}", reader.commands.len() + 1))?;
    Ok(reader.commands)
}

struct Reader<'a> {
    rest: Peekable<Chars<'a>>,
    commands: Vec<ShellCommand>,
    current: ShellCommand,
    /// The word so far; one in quotes may be empty.
    word: Option<String>,
    /// What the next word is for, if it follows the sign of a redirection.
    redirection: Option<Redirection>,
    /// The last line of a text that begins on the next one.
    here_document: Option<String>,
}

enum Redirection {
    File,
    HereDocument,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str) -> Self {
        let (rest, current) = (text.chars().peekable(), ShellCommand::default());
        Self { rest, commands: Vec::new(), current, word: None, redirection: None, here_document: None }
    }

    fn read(&mut self) -> Result<(), String> {
        while let Some(character) = self.rest.next() {
            match character {
                ' ' | '\t' | '\r' => self.end_word(),
                ';' => self.end_command(false),
                '\n' => {
                    self.end_command(false);
                    self.skip_here_document()?;
                }
                '|' => {
                    let is_or = self.rest.next_if_eq(&'|').is_some();
                    self.end_command(!is_or);
                }
                // Within a word it is most likely a part of a URL without quotes.
                '&' if self.is_separated() => self.end_command(false),
                '#' if self.word.is_none() => self.skip_comment(),
                '<' | '>' => self.redirect(character),
                '^' if matches!(self.rest.peek(), Some('"' | '\n' | '\r')) => {
                    return Err(String::from("it is for cmd of Windows; copy it for bash (\"Copy as cURL (bash)\")"));
                }
                '\\' => self.read_escaped(),
                '\'' => self.read_single_quoted()?,
                '"' => self.read_double_quoted()?,
                '$' if self.rest.next_if_eq(&'\'').is_some() => {
                    let text = ansi_c::decoded(&mut self.rest)?;
                    self.word().push_str(&text);
                }
                '$' => self.read_dollar(),
                _ => self.word().push(character),
            }
        }
        self.end_command(false);
        Ok(())
    }

    fn word(&mut self) -> &mut String {
        self.word.get_or_insert_default()
    }

    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        match self.redirection.take() {
            None => self.current.words.push(word),
            Some(Redirection::File) => {}
            Some(Redirection::HereDocument) => self.here_document = Some(word),
        }
    }

    fn end_command(&mut self, is_piped: bool) {
        self.end_word();
        self.redirection = None;
        let next = ShellCommand { is_filter: is_piped, ..ShellCommand::default() };
        let command = std::mem::replace(&mut self.current, next);
        if !command.words.is_empty() {
            self.commands.push(command);
        }
    }

    /// Whether a `&` ends a command.
    fn is_separated(&mut self) -> bool {
        let is_and = self.rest.next_if_eq(&'&').is_some();
        is_and || self.word.is_none() || self.rest.peek().is_none_or(|next| next.is_whitespace())
    }

    fn skip_comment(&mut self) {
        while self.rest.next_if(|character| *character != '\n').is_some() {}
    }

    /// `>FILE`, `2>&1`, `<FILE`, `<<END`. The number of a file stands before the sign.
    fn redirect(&mut self, sign: char) {
        self.word.take_if(|word| word.bytes().all(|byte| byte.is_ascii_digit()));
        self.end_word();
        if sign == '<' && self.rest.next_if_eq(&'<').is_some() && self.rest.next_if_eq(&'<').is_none() {
            self.rest.next_if_eq(&'-');
            self.redirection = Some(Redirection::HereDocument);
            return;
        }
        while self.rest.next_if(|next| matches!(next, '>' | '&')).is_some() {}
        self.redirection = Some(Redirection::File);
    }

    fn skip_here_document(&mut self) -> Result<(), String> {
        let Some(end) = self.here_document.take() else { return Ok(()) };
        while self.rest.peek().is_some() {
            let mut line = String::new();
            while let Some(letter) = self.rest.next_if(|letter| *letter != '\n') {
                line.push(letter);
            }
            self.rest.next();
            if line.trim() == end {
                return Ok(());
            }
        }
        Err(format!("the here-document before it has no last line {end}"))
    }

    /// A line break is removed, also behind spaces, which a copy may have added.
    fn read_escaped(&mut self) {
        let mut ahead = self.rest.clone();
        let is_blank = |character: &char| matches!(character, ' ' | '\t' | '\r');
        while ahead.next_if(is_blank).is_some() {}
        if ahead.next_if_eq(&'\n').is_some() {
            self.rest = ahead;
        } else if let Some(character) = self.rest.next() {
            self.word().push(character);
        }
    }

    fn read_single_quoted(&mut self) -> Result<(), String> {
        self.word();
        loop {
            match self.rest.next().ok_or("a ' is not closed")? {
                '\'' => return Ok(()),
                character => self.word().push(character),
            }
        }
    }

    fn read_double_quoted(&mut self) -> Result<(), String> {
        self.word();
        loop {
            match self.rest.next().ok_or("a \" is not closed")? {
                '"' => return Ok(()),
                '$' => self.read_dollar(),
                '\\' => match self.rest.next().ok_or("a \" is not closed")? {
                    '\n' => {}
                    escaped @ ('$' | '`' | '"' | '\\') => self.word().push(escaped),
                    other => self.word().extend(['\\', other]),
                },
                character => self.word().push(character),
            }
        }
    }

    /// What is expanded remains, and is noted.
    fn read_dollar(&mut self) {
        let mut name = String::from('$');
        let mut ahead = self.rest.clone();
        let is_braced = ahead.next_if(|next| matches!(next, '{' | '(')).is_some();
        let is_part = |character: &char| character.is_ascii_alphanumeric() || *character == '_';
        if is_braced || ahead.peek().is_some_and(|next| is_part(next) && !next.is_ascii_digit()) {
            while let Some(part) =
                self.rest.next_if(|next| is_part(next) || (name.len() == 1 && matches!(next, '{' | '(')))
            {
                name.push(part);
            }
            let shown = name.clone() + self.closing(&name);
            self.current.expansions.push(shown);
        }
        self.word().push_str(&name);
    }

    /// What shows that a substitution ends after its name, or goes on.
    fn closing(&mut self, name: &str) -> &'static str {
        match (name.as_bytes().get(1), self.rest.peek()) {
            (Some(b'{'), Some('}')) => "}",
            (Some(b'('), Some(')')) => ")",
            (Some(b'{' | b'('), _) => "…",
            _ => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<Vec<String>> {
        commands(text).unwrap().into_iter().map(|command| command.words).collect()
    }

    #[test]
    fn words_are_those_of_bash() {
        for (text, expected) in [
            ("a  'b c'\t\"d 'e\"f ''", &["a", "b c", "d 'ef", ""][..]),
            ("a \\\n  b \\\r\n c", &["a", "b", "c"]),
            ("a/x\\\ny b", &["a/xy", "b"]),
            ("a \\  \n b", &["a", "b"]),
            ("a 'x\\\ny' \"x\\\ny\"", &["a", "x\\\ny", "xy"]),
            ("a '{\n \"n\": 1\n}'", &["a", "{\n \"n\": 1\n}"]),
            (r#"\a\'b "\"\\\$\n""#, &["a'b", "\"\\$\\n"]),
            (r"a $'\n\u0021\'' 'b'\''c'", &["a", "\n!'", "b'c"]),
            ("a#b # c 'd", &["a#b"]),
            ("a?x=1&y=2", &["a?x=1&y=2"]),
            ("a > b.txt 2>&1 <c d 2> /dev/null", &["a", "d"]),
        ] {
            assert_eq!(words(text), [expected], "{text}");
        }
    }

    #[test]
    fn commands_end_outside_of_quotes() {
        for text in ["a b\nc 'd\n'", "a b; c 'd\n' ;\n;", "# x\na b&&c 'd\n'", "a b &\nc 'd\n'", "a b || c 'd\n' #\n"] {
            assert_eq!(words(text), [vec!["a", "b"], vec!["c", "d\n"]], "{text}");
        }
        assert_eq!(words("a b <<- 'END' -c\nx 'y\nEND\nd"), [vec!["a", "b", "-c"], vec!["d"]]);
        for line in ["a b <<END; c d", "a b <<END&& c d", "a b << \"END\"|| c d", "a b <<\\END\nx 'y\nEND\nc d <<END"] {
            assert_eq!(words(&format!("{line}\nx 'y\nEND\ne")), [vec!["a", "b"], vec!["c", "d"], vec!["e"]], "{line}");
        }
        assert_eq!(words("a b <<-END|c\nx 'y\n\tEND\nd"), [vec!["a", "b"], vec!["c"], vec!["d"]]);
        let found = commands("a | b | c\n d").unwrap();
        assert_eq!(found.iter().map(|command| command.is_filter).collect::<Vec<_>>(), [false, true, true, false]);
    }

    #[test]
    fn expansions_are_noted() {
        let found = commands("a \"$ID/${x}\" $1 '$y' \\$z $(date -u) a$ \"$\"").unwrap().swap_remove(0);
        assert_eq!(found.expansions, ["$ID", "${x}", "$(date…"]);
        assert_eq!(found.words[..4], ["a", "$ID/${x}", "$1", "$y"]);
    }

    #[test]
    fn what_is_no_text_is_refused() {
        for (text, problem) in [
            ("a\nb 'c\nd", "command 2: a ' is not closed"),
            ("a \"b", "a \" is not closed"),
            ("a <<END\nb\n END.\nc", "command 2: the here-document before it has no last line END"),
            ("a $'b", "$' is not closed"),
            ("curl ^\"http://h/^\" ^\n -k", "for cmd of Windows"),
            ("curl \"http://h/\" ^\r\n -k", "for cmd of Windows"),
        ] {
            let error = commands(text).unwrap_err();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }
}
