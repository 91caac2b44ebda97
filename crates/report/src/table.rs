//! Tables independent of the output format.

#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<Cell>>,
    /// What was omitted, if anything.
    pub remark: Option<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub name: String,
    /// Numbers are right-aligned.
    pub is_number: bool,
}

/// A cell; plain text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cell {
    pub text: String,
    /// An anchor in the page.
    pub anchor: Option<String>,
    /// A CSS class.
    pub class: Option<&'static str>,
    /// A sentence, with code between back quotes.
    pub is_sentence: bool,
}

impl Table {
    /// `names`: a leading `#` marks a column of numbers.
    pub(crate) fn new(names: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let column =
            |name: &str| Column { name: name.trim_start_matches('#').to_owned(), is_number: name.starts_with('#') };
        Self { columns: names.into_iter().map(|name| column(name.as_ref())).collect(), ..Self::default() }
    }

    pub(crate) fn push<C: Into<Cell>>(&mut self, row: impl IntoIterator<Item = C>) {
        self.rows.push(row.into_iter().map(Into::into).collect());
    }

    /// Keeps the first `rows_max` rows and mentions the others in the remark.
    pub(crate) fn limited(mut self, rows_max: usize) -> Self {
        if self.rows.len() > rows_max {
            self.remark =
                Some(format!("The first {rows_max} of {} rows; all are in the run's files.", self.rows.len()));
            self.rows.truncate(rows_max);
        }
        self
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl Cell {
    pub(crate) fn linked(text: impl Into<String>, anchor: impl Into<String>) -> Self {
        Self { text: text.into(), anchor: Some(anchor.into()), ..Self::default() }
    }

    pub(crate) fn classed(text: impl Into<String>, class: &'static str) -> Self {
        Self { text: text.into(), class: Some(class), ..Self::default() }
    }

    pub(crate) fn sentence(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_sentence: true, ..Self::default() }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self { text, ..Self::default() }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}
