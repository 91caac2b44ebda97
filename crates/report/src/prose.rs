//! Sentences of a judgement: prose with expressions and names between back quotes.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part<'a> {
    pub(crate) text: &'a str,
    /// Whether it is between back quotes.
    pub(crate) is_code: bool,
}

/// The parts of a sentence, in order. If foreign text contains a back quote, all of it is plain text.
pub(crate) fn parts(sentence: &str) -> Vec<Part<'_>> {
    if sentence.matches('`').count() % 2 == 1 {
        return vec![Part { text: sentence, is_code: false }];
    }
    let parts = sentence.split('`').enumerate().map(|(index, text)| Part { text, is_code: index % 2 == 1 });
    parts.filter(|part| !part.text.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_between_back_quotes_is_code() {
        let part = |text, is_code| Part { text, is_code };
        assert_eq!(
            parts("`a` is 2 times `b`."),
            [part("a", true), part(" is 2 times ", false), part("b", true), part(".", false)]
        );
        assert_eq!(parts("plain"), [part("plain", false)]);
        assert_eq!(parts("one ` alone"), [part("one ` alone", false)]);
        assert!(parts("").is_empty());
    }
}
