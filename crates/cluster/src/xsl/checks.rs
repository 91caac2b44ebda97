//! Rejects input before libxslt reads it: anything that could make it read another file, or that its parser would
//! interpret differently.

use roxmltree::{Document, Node, ParsingOptions, TextPos};
use thiserror::Error;

const XSLT: &str = "http://www.w3.org/1999/XSL/Transform";
/// Instructions that read or write other files.
const REFUSED_INSTRUCTIONS: &[&str] = &["import", "include", "document", "result-document", "source-document"];
/// Prefixes of the namespaces of libxslt's own functions and instructions: some evaluate texts as expressions, some
/// write files.
const EXTENSIONS: &[&str] = &[
    "http://exslt.org/",
    "http://icl.com/saxon",
    "http://xmlsoft.org/XSLT",
    "http://www.jclark.com/xt",
    "org.apache.xalan",
];
/// Limit of the nodes of a tree.
const NODES_MAX: u32 = 1 << 20;

/// Input that libxslt must not read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InputError {
    #[error("is not UTF-8")]
    NotUtf8,
    #[error("must be UTF-8, not {0}")]
    Encoding(String),
    #[error("its XML declaration does not end")]
    Declaration,
    #[error(transparent)]
    Xml(#[from] roxmltree::Error),
    #[error("is not an XSL stylesheet: its root is not xsl:stylesheet")]
    NoStylesheet,
    #[error("{what} would use another file, at {at}")]
    OtherFile { what: String, at: TextPos },
    #[error("extensions are off: {what}, at {at}")]
    Extension { what: String, at: TextPos },
}

/// An accepted stylesheet.
#[derive(Debug)]
pub(super) struct Stylesheet<'a> {
    /// Without its XML declaration: the checked text is UTF-8, whatever a declaration claims.
    pub(super) content: &'a str,
    pub(super) output: Output,
}

/// The attributes of `xsl:output`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Output {
    method: Option<String>,
    media_type: Option<String>,
    encoding: Option<String>,
}

impl<'a> Stylesheet<'a> {
    pub(super) fn from_text(text: &'a str) -> Result<Self, InputError> {
        let content = without_declaration(text)?;
        let tree = parse(content)?;
        let root = tree.root_element();
        if !["stylesheet", "transform"].iter().any(|name| root.has_tag_name((XSLT, *name))) {
            return Err(InputError::NoStylesheet);
        }
        let mut output = Output::default();
        for node in tree.descendants().filter(Node::is_element) {
            check(&tree, node)?;
            if node.has_tag_name((XSLT, "output")) {
                output.read(node);
            }
        }
        Ok(Self { content, output })
    }
}

/// The document as passed to libxslt.
pub(super) fn document_content(text: &str) -> Result<&str, InputError> {
    let content = without_declaration(text)?;
    parse(content)?;
    Ok(content)
}

/// Without a DTD there are no entities and no external references.
fn parse(content: &str) -> Result<Document<'_>, roxmltree::Error> {
    let options = ParsingOptions { allow_dtd: false, nodes_limit: NODES_MAX, ..ParsingOptions::default() };
    Document::parse_with_options(content, options)
}

fn without_declaration(text: &str) -> Result<&str, InputError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let Some(rest) = text.strip_prefix("<?xml").filter(|rest| rest.starts_with([' ', '\t', '\r', '\n'])) else {
        return Ok(text);
    };
    let (declaration, content) = rest.split_once("?>").ok_or(InputError::Declaration)?;
    let encoding = declaration.split_once("encoding").map(|(_, value)| {
        value.trim_matches(|character: char| character.is_whitespace() || "='\"".contains(character)).to_lowercase()
    });
    match encoding {
        Some(encoding) if !encoding.starts_with("utf-8") && !encoding.starts_with("us-ascii") => {
            Err(InputError::Encoding(encoding))
        }
        _ => Ok(content),
    }
}

fn check(tree: &Document<'_>, node: Node<'_, '_>) -> Result<(), InputError> {
    let at = || tree.text_pos_at(node.range().start);
    let uses_other_file = |what: String| InputError::OtherFile { what, at: at() };
    let is_extension = |what: String| InputError::Extension { what, at: at() };
    let name = node.tag_name();
    let is_instruction = name.namespace() == Some(XSLT);
    if is_instruction && REFUSED_INSTRUCTIONS.contains(&name.name()) {
        return Err(uses_other_file(format!("xsl:{}", name.name())));
    }
    let mut namespaces = node.namespaces().map(|namespace| namespace.uri());
    if let Some(uri) = namespaces.find(|uri| EXTENSIONS.iter().any(|extension| uri.starts_with(extension))) {
        return Err(is_extension(format!("the namespace {uri}")));
    }
    for attribute in node.attributes() {
        if attribute.name() == "extension-element-prefixes" {
            return Err(is_extension("extension-element-prefixes".to_owned()));
        }
        let has_expressions = is_instruction || attribute.value().contains('{');
        if has_expressions && calls_document(attribute.value()) {
            return Err(uses_other_file("document()".to_owned()));
        }
    }
    Ok(())
}

/// Whether `document` is followed by a parenthesis.
fn calls_document(expression: &str) -> bool {
    let mut after = expression.split("document");
    after.next();
    after.any(|rest| rest.trim_start().starts_with('('))
}

impl Output {
    /// Later elements override earlier ones, attribute by attribute.
    fn read(&mut self, node: Node<'_, '_>) {
        for (value, name) in
            [(&mut self.method, "method"), (&mut self.media_type, "media-type"), (&mut self.encoding, "encoding")]
        {
            if let Some(text) = node.attribute(name) {
                *value = Some(text.to_owned());
            }
        }
    }

    /// For Content-Type. Without a method, a result that begins with `<html` is HTML (XSLT 1.0, section 16).
    pub(super) fn media_type(&self, result: &[u8]) -> String {
        let begins_as_html =
            || result.trim_ascii_start().get(..5).is_some_and(|start| start.eq_ignore_ascii_case(b"<html"));
        let from_method = match self.method.as_deref() {
            Some("html") => "text/html",
            Some("text") => "text/plain",
            None if begins_as_html() => "text/html",
            _ => "application/xml",
        };
        let is_visible = |character: char| character.is_ascii_graphic();
        let sound = |value: &&str| !value.is_empty() && value.chars().all(is_visible);
        let media_type = self.media_type.as_deref().filter(sound).unwrap_or(from_method);
        let charset = self.encoding.as_deref().filter(sound).unwrap_or("UTF-8");
        format!("{media_type}; charset={charset}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn style(content: &str) -> String {
        format!("<xsl:stylesheet version='1.0' xmlns:xsl='{XSLT}'>{content}</xsl:stylesheet>")
    }

    fn reason(text: &str) -> String {
        Stylesheet::from_text(text).unwrap_err().to_string()
    }

    #[test]
    fn whatever_reads_another_file_is_refused() {
        for content in [
            "<xsl:import href='other.xsl'/>",
            "<xsl:include href='/etc/passwd'/>",
            "<xsl:template match='/'><xsl:copy-of select=\"document('/etc/passwd')\"/></xsl:template>",
            "<xsl:template match='/'><xsl:copy-of select=\"docum&#101;nt&#10;('')\"/></xsl:template>",
            "<xsl:template match='/'><a href=\"{document('x')}\"/></xsl:template>",
            "<xsl:variable name='x' select=\"my-document(document('x'))\"/>",
            "<x xmlns:e='http://exslt.org/dynamic'/>",
            "<e:write xmlns:e='http://icl.com/saxon' href='x'/>",
            "<x xsl:extension-element-prefixes='xsl'/>",
        ] {
            let text = reason(&style(content));
            assert!(text.contains("another file") || text.contains("extensions are off"), "{content}: {text}");
        }
    }

    #[test]
    fn words_in_text_are_not_calls() {
        let text = style("<xsl:template match='document'><a title='a document (1)'>document('x')</a></xsl:template>");
        assert!(Stylesheet::from_text(&text).is_ok());
    }

    #[test]
    fn dtds_and_other_encodings_are_refused() {
        for text in [
            "<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>",
            "<!DOCTYPE a SYSTEM 'http://example.com/a.dtd'><a/>",
            "<?xml version='1.0' encoding='UTF-7'?><a/>",
            "<?xml version=\"1.0\" encoding = \"ISO-8859-1\" standalone=\"yes\"?><a/>",
            "<?xml version='1.0'",
            "<a><b></a>",
            "<a/><?xml version='1.0' encoding='UTF-7'?>",
            "",
        ] {
            assert!(document_content(text).is_err(), "{text}");
        }
        let declared = "\u{feff}<?xml version='1.0' encoding='utf-8'?><?xml-stylesheet href='x'?><a>č</a>";
        assert_eq!(document_content(declared).unwrap(), "<?xml-stylesheet href='x'?><a>č</a>");
    }

    #[test]
    fn deep_documents_are_read_or_refused() {
        let deep = "<a>".repeat(300_000) + &"</a>".repeat(300_000);
        // Either result is fine; it must neither crash nor take long.
        let _ = document_content(&deep);
    }

    #[test]
    fn the_media_type_follows_the_output() {
        let media_type = |output: &str, result: &[u8]| {
            let text = style(output);
            Stylesheet::from_text(&text).unwrap().output.media_type(result)
        };
        assert_eq!(media_type("", b"<HTML>"), "text/html; charset=UTF-8");
        assert_eq!(media_type("", b"<a/>"), "application/xml; charset=UTF-8");
        assert_eq!(
            media_type("<xsl:output method='html'/><xsl:output encoding='ascii'/>", b""),
            "text/html; charset=ascii"
        );
        assert_eq!(media_type("<xsl:output method='text' media-type='text/csv'/>", b""), "text/csv; charset=UTF-8");
        assert_eq!(media_type("<xsl:output media-type='a&#10;b: c'/>", b""), "application/xml; charset=UTF-8");
    }
}
