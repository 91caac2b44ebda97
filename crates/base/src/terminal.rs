//! Text for a terminal: colours, and lines that fit.

/// Lines are not folded to less than this.
pub const WIDTH_MIN: usize = 40;

pub const BOLD: &str = "1";
pub const DIM: &str = "2";
pub const RED: &str = "31";
pub const GREEN: &str = "32";
pub const YELLOW: &str = "33";
pub const CYAN: &str = "36";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// ANSI colours; not if the output is no terminal, or if `NO_COLOR` is set.
    pub colours: bool,
    /// Columns of the terminal, if the output is one.
    pub width: Option<usize>,
}

impl Style {
    /// Text with the colour of a code; an empty one is that of the terminal.
    #[must_use]
    pub fn paint(self, code: &str, text: &str) -> String {
        if self.colours && !code.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// Folds lines that are longer than `width` at a space; continued lines are indented. A word that is longer than a line
/// is broken at its end.
#[must_use]
pub fn fold(text: &str, width: usize, indent: usize) -> String {
    let mut folder = Folder { width: width.max(WIDTH_MIN), indent, column: 0, folded: String::new() };
    for line in text.lines() {
        folder.push_line(line);
    }
    folder.folded
}

struct Folder {
    width: usize,
    indent: usize,
    column: usize,
    folded: String,
}

impl Folder {
    fn push_line(&mut self, line: &str) {
        self.column = 0;
        let is_long = visible(line) > self.width;
        for (number, word) in line.split(' ').enumerate() {
            if is_long && self.column + 1 + visible(word) > self.width && self.column > self.indent {
                self.begin_line();
            } else if number > 0 {
                self.folded.push(' ');
                self.column += 1;
            }
            self.push_word(word);
        }
        self.folded.push('\n');
    }

    fn push_word(&mut self, word: &str) {
        let mut is_escape = false;
        for character in word.chars() {
            is_escape |= character == '\x1b';
            if !is_escape {
                if self.column >= self.width {
                    self.begin_line();
                }
                self.column += 1;
            }
            self.folded.push(character);
            is_escape &= character != 'm';
        }
    }

    fn begin_line(&mut self) {
        self.folded.push('\n');
        self.folded.extend(std::iter::repeat_n(' ', self.indent));
        self.column = self.indent;
    }
}

/// The number of visible characters, without colour sequences.
fn visible(text: &str) -> usize {
    let mut is_escape = false;
    let is_visible = |character: &char| {
        is_escape |= *character == '\x1b';
        let is_visible = !is_escape;
        is_escape &= *character != 'm';
        is_visible
    };
    text.chars().filter(is_visible).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_folded_and_long_words_are_broken() {
        let word = "x".repeat(50);
        let red = Style { colours: true, width: None }.paint(RED, "seventeen letters");
        let text = format!("short  line\n  head {red} and more text than fits\n{word}");
        let expected = [
            "short  line",
            &format!("  head {red} and more text"),
            "    than fits",
            &"x".repeat(40),
            &format!("    {}", "x".repeat(10)),
            "",
        ];
        assert_eq!(fold(&text, 0, 4), expected.join("\n"));
    }
}
