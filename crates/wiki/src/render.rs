//! Markdown → safe HTML.
//!
//! There are three layers of defence, each sufficient by itself: comrak escapes raw HTML and drops dangerous URLs;
//! ammonia parses its output like a browser and keeps only listed elements, attributes and URL schemes; and the page
//! has a Content-Security-Policy.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::LazyLock;

use ammonia::Builder;
use breme_wiki_database::name::Name;
use comrak::adapters::{HeadingAdapter, HeadingMeta};
use comrak::arena_tree::NodeEdge;
use comrak::nodes::{AstNode, NodeLink, NodeValue, Sourcepos};
use comrak::options::Plugins;
use comrak::{Anchorizer, Arena, Options, format_html_with_plugins, parse_document};
use parking_lot::Mutex;
use percent_encoding::percent_decode_str;

use crate::paths;

/// Limit of the distinct pages to which a page may link; further links are not tracked as backlinks.
pub const LINKS_MAX: usize = 1000;

/// Prefix of the ids of headings, so that none can have the id of one of the wiki's own elements.
const HEADING_PREFIX: &str = "section-";

/// Limit of the nesting of blocks and emphasis: HTML parsers search all open elements repeatedly, so the work would
/// grow with the square of the depth.
const NESTING_MAX: usize = 100;

/// Limit of the HTML in bytes per byte of the text: a few characters of headings or references to one footnote can
/// become hundreds.
const EXPANSION_MAX: usize = 8;
/// Bytes of HTML allowed for any text, however short.
const HTML_BYTES_FREE: usize = 64 << 10;
/// Limits of the character references in a text and in a tag of the HTML.
const TEXT_REFERENCES_MAX: usize = 256;
const TAG_REFERENCES_MAX: usize = 1000;
/// Approximate size of a heading in the table of contents.
const HEADING_BYTES: usize = 64;

/// The URL scheme of a page's own attachments: `![Map](attachment:map.png)`.
const ATTACHMENT: &str = "attachment:";

/// A page's text as HTML.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rendered {
    pub html: String,
    pub headings: Vec<Heading>,
}

/// An entry of the table of contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heading {
    /// From 2 (1 is the title of the page) to 6.
    pub level: u8,
    /// The id of its element.
    pub id: String,
    /// Without markup.
    pub text: String,
}

/// Renders the text of the page `name` and marks the links to `missing` pages.
#[must_use]
pub fn render(text: &str, name: &Name, missing: &[Name]) -> Rendered {
    let arena = Arena::new();
    let options = options();
    let text = &*with_shallow_quotes(text);
    let root = parse_document(&arena, text, &options);
    prune(&arena, root);
    let missing: HashSet<&Name> = missing.iter().collect();
    let mut headings = Vec::new();
    let mut ids = Anchorizer::new();
    // The nodes are collected first, since the loop changes the tree.
    for node in root.descendants().collect::<Vec<_>>() {
        match &mut node.data_mut().value {
            NodeValue::Heading(heading) => {
                heading.level = (heading.level + 1).min(6);
                headings.push((node, heading.level));
            }
            NodeValue::Link(link) | NodeValue::Image(link) => link_attachment(link, name),
            _ => (),
        }
        let target = match &node.data().value {
            NodeValue::WikiLink(link) => Some(link.url.clone()),
            _ => None,
        };
        if let Some(target) = target {
            link_page(&arena, node, &target, name, &missing);
        } else if matches!(node.data().value, NodeValue::Table(_)) {
            node.insert_before(raw(
                &arena,
                "<div class=\"table\" role=\"region\" aria-label=\"Table\" tabindex=\"0\">",
            ));
            node.insert_after(raw(&arena, "</div>"));
        }
    }
    let headings: Vec<Heading> = headings
        .into_iter()
        .map(|(node, level)| {
            let text = plain_text(node);
            Heading { level, id: format!("{HEADING_PREFIX}{}", ids.anchorize(&text)), text }
        })
        .collect();
    let adapter = Headings(Mutex::new(headings.iter().map(|one| one.id.clone()).collect::<Vec<_>>().into_iter()));
    let mut plugins = Plugins::default();
    plugins.render.heading_adapter = Some(&adapter);
    let mut html = String::with_capacity(text.len() * 5 / 4);
    // Writing into a string cannot fail.
    let _ = format_html_with_plugins(root, &options, &mut html, &plugins);
    if html.len() + HEADING_BYTES * headings.len() > HTML_BYTES_FREE + EXPANSION_MAX * text.len() {
        return unrendered(text);
    }
    match sanitise(&html) {
        Some(html) => Rendered { html, headings },
        None => unrendered(text),
    }
}

/// The text as written.
fn unrendered(text: &str) -> Rendered {
    Rendered { html: format!("<pre tabindex=\"0\"><code>{}</code></pre>\n", escape(text)), headings: Vec::new() }
}

/// The HTML with allowed elements and attributes only; `None` if that would take too long.
fn sanitise(html: &str) -> Option<String> {
    Some(SANITISER.clean(&with_short_texts(html)?).to_string())
}

/// Divides texts with many character references by comments, which the sanitiser drops; `None` if a tag has too many,
/// since attributes cannot be divided. The sanitiser's work grows with the square of the references in one text or
/// attribute: it took 6 s for 512 KiB of `&`.
fn with_short_texts(html: &str) -> Option<Cow<'_, str>> {
    let (mut divided, mut copied, mut references, mut is_tag) = (String::new(), 0, 0, false);
    for (place, mark) in html.bytes().enumerate() {
        match mark {
            // In texts and attributes, these two are escaped.
            b'<' | b'>' => (is_tag, references) = (mark == b'<', 0),
            b'&' => references += 1,
            _ => {}
        }
        if is_tag && references > TAG_REFERENCES_MAX {
            return None;
        }
        if !is_tag && references > TEXT_REFERENCES_MAX {
            divided.push_str(&html[copied..place]);
            divided.push_str("<!---->");
            (copied, references) = (place, 1);
        }
    }
    if divided.is_empty() {
        return Some(Cow::Borrowed(html));
    }
    divided.push_str(&html[copied..]);
    Some(Cow::Owned(divided))
}

/// The distinct pages to which a text links, in order; at most [`LINKS_MAX`].
#[must_use]
pub fn links(text: &str) -> Vec<Name> {
    // Most texts have none and need not be parsed.
    if !text.contains("[[") {
        return Vec::new();
    }
    let arena = Arena::new();
    let root = parse_document(&arena, &with_shallow_quotes(text), &options());
    let mut seen = HashSet::new();
    let names = root.descendants().filter_map(|node| match &node.data().value {
        NodeValue::WikiLink(link) => target(&link.url).map(|(name, _)| name),
        _ => None,
    });
    names.filter(|name| seen.insert(name.clone())).take(LINKS_MAX).collect()
}

fn options() -> Options<'static> {
    let mut options = Options::default();
    options.extension.strikethrough = true;
    options.extension.table = true;
    options.extension.autolink = true;
    options.extension.tasklist = true;
    options.extension.footnotes = true;
    options.extension.alerts = true;
    options.extension.cjk_friendly_emphasis = true;
    options.extension.wikilinks_title_after_pipe = true;
    options.render.escape = true;
    options.render.tasklist_classes = true;
    options
}

fn plain_text<'a>(node: &'a AstNode<'a>) -> String {
    let mut text = String::new();
    for one in node.descendants() {
        match &one.data().value {
            NodeValue::Text(part) => text.push_str(part),
            NodeValue::Code(code) => text.push_str(&code.literal),
            NodeValue::SoftBreak | NodeValue::LineBreak | NodeValue::Paragraph => text.push(' '),
            _ => (),
        }
    }
    text.trim().to_owned()
}

/// The page of a link, and the heading in it.
fn target(url: &str) -> Option<(Name, Option<&str>)> {
    let (page, heading) = url.split_once('#').map_or((url, None), |(page, heading)| (page, Some(heading)));
    Some((Name::parse(page).ok()?, heading))
}

fn raw<'a>(arena: &'a Arena<'a>, html: impl Into<String>) -> &'a AstNode<'a> {
    arena.alloc(NodeValue::Raw(html.into()).into())
}

fn link_page<'a>(arena: &'a Arena<'a>, node: &'a AstNode<'a>, url: &str, own: &Name, missing: &HashSet<&Name>) {
    let fragment = |heading: &str| format!("#{HEADING_PREFIX}{}", Anchorizer::new().anchorize(heading));
    let link = |url: String| NodeValue::Link(Box::new(NodeLink { url, title: String::new() }));
    let page = target(url);
    match (page, url.strip_prefix('#')) {
        (None, Some(heading)) => node.data_mut().value = link(fragment(heading)),
        // Not a valid name: show the text as written.
        (None, None) => {
            node.insert_before(text(arena, "[["));
            unwrap(node);
            node.insert_before(text(arena, "]]"));
            node.detach();
        }
        (Some((page, _)), _) if missing.contains(&page) && page != *own => {
            let href = paths::page(&page);
            node.insert_before(raw(arena, format!("<a class=\"missing\" href=\"{}\">", escape(&href))));
            unwrap(node);
            node.insert_before(raw(arena, "<span class=\"hidden\"> (page does not exist)</span></a>"));
            node.detach();
        }
        (Some((page, heading)), _) => {
            let fragment = heading.map(fragment).unwrap_or_default();
            node.data_mut().value = link(format!("{}{fragment}", paths::page(&page)));
        }
    }
}

/// Escapes the marks of quotes nested too deep: the parser's work grows with the square of their depth.
fn with_shallow_quotes(text: &str) -> Cow<'_, str> {
    let is_mark = |c: char| c == '>' || c.is_ascii_whitespace() || c.is_ascii_digit() || "-+*.)".contains(c);
    let deep = |line: &str| {
        let marks = line.char_indices().take_while(|(_, c)| is_mark(*c)).filter(|(_, c)| *c == '>');
        marks.map(|(place, _)| place).nth(NESTING_MAX)
    };
    if text.lines().all(|line| deep(line).is_none()) {
        return Cow::Borrowed(text);
    }
    let escaped = |line: &str| match deep(line) {
        Some(place) => format!("{}\\{}", &line[..place], &line[place..]),
        None => line.to_owned(),
    };
    Cow::Owned(text.split_inclusive('\n').map(escaped).collect())
}

/// Replaces content nested too deep by an ellipsis.
fn prune<'a>(arena: &'a Arena<'a>, root: &'a AstNode<'a>) {
    let mut depth = 0;
    let mut too_deep = Vec::new();
    for edge in root.traverse() {
        match edge {
            NodeEdge::Start(node) => {
                depth += 1;
                if depth == NESTING_MAX {
                    too_deep.push(node);
                }
            }
            NodeEdge::End(_) => depth -= 1,
        }
    }
    for node in too_deep {
        node.insert_before(text(arena, "…"));
        node.detach();
    }
}

fn text<'a>(arena: &'a Arena<'a>, text: &'static str) -> &'a AstNode<'a> {
    arena.alloc(NodeValue::Text(text.into()).into())
}

/// Moves the children of a node before it.
fn unwrap<'a>(node: &'a AstNode<'a>) {
    for child in node.children().collect::<Vec<_>>() {
        node.insert_before(child);
    }
}

fn link_attachment(link: &mut NodeLink, own: &Name) {
    let Some(file) = link.url.strip_prefix(ATTACHMENT) else { return };
    let file = percent_decode_str(file).decode_utf8_lossy().into_owned();
    // An invalid name leads nowhere.
    link.url = Name::parse(&file).map_or_else(|_| "#".to_owned(), |file| paths::attachment(own, &file));
}

/// `text` as the text or an attribute of HTML or XML.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Headings with ids; those of comrak would contain a link each.
struct Headings(Mutex<std::vec::IntoIter<String>>);

impl HeadingAdapter for Headings {
    fn enter(&self, output: &mut dyn fmt::Write, heading: &HeadingMeta, _: Option<Sourcepos>) -> fmt::Result {
        let id = self.0.lock().next().unwrap_or_default();
        write!(output, "<h{} id=\"{}\">", heading.level, escape(&id))
    }

    fn exit(&self, output: &mut dyn fmt::Write, heading: &HeadingMeta) -> fmt::Result {
        writeln!(output, "</h{}>", heading.level)
    }
}

/// The elements, attributes and URL schemes that are allowed. The classes are those written by this module and by
/// comrak; users cannot write any, since their HTML is escaped.
static SANITISER: LazyLock<Builder<'static>> = LazyLock::new(|| {
    let tags = "a blockquote br code del div em h2 h3 h4 h5 h6 hr img input li ol p pre section span \
        strong sup table tbody td th thead tr ul";
    let attributes: [(&str, &[&str]); 13] = [
        ("a", &["href", "title", "id", "aria-label"]),
        ("code", &["class"]),
        ("div", &["role", "aria-label", "tabindex"]),
        ("h2", &["id"]),
        ("h3", &["id"]),
        ("h4", &["id"]),
        ("h5", &["id"]),
        ("h6", &["id"]),
        ("img", &["src", "alt", "title"]),
        ("li", &["id"]),
        ("ol", &["start"]),
        ("td", &["align"]),
        ("th", &["align"]),
    ];
    let classes: [(&str, &[&str]); 7] = [
        ("a", &["missing", "footnote-backref"]),
        (
            "div",
            &[
                "table",
                "markdown-alert",
                "markdown-alert-note",
                "markdown-alert-tip",
                "markdown-alert-important",
                "markdown-alert-warning",
                "markdown-alert-caution",
            ],
        ),
        ("li", &["task-list-item"]),
        ("p", &["markdown-alert-title"]),
        ("section", &["footnotes"]),
        ("span", &["hidden"]),
        ("ul", &["contains-task-list"]),
    ];
    let set = |names: &[&'static str]| names.iter().copied().collect::<HashSet<_>>();
    let mut sanitiser = Builder::empty();
    sanitiser
        .tags(tags.split(' ').collect())
        .clean_content_tags(set(&["script", "style"]))
        .tag_attributes(attributes.iter().map(|(tag, names)| (*tag, set(names))).collect())
        // Only the boxes of task lists.
        .set_tag_attribute_values(HashMap::from([
            ("input", HashMap::from([("type", "checkbox"), ("disabled", ""), ("aria-label", "Task")])),
            ("img", HashMap::from([("loading", "lazy")])),
            // Long lines scroll, also by the keyboard.
            ("pre", HashMap::from([("tabindex", "0")])),
        ]))
        .tag_attribute_values(HashMap::from([("input", HashMap::from([("checked", set(&[""]))]))]))
        .allowed_classes(classes.iter().map(|(tag, names)| (*tag, set(names))).collect())
        .generic_attributes(HashSet::new())
        .url_schemes(set(&["http", "https", "mailto", "tel"]))
        .attribute_filter(|element, attribute, value| match (element, attribute) {
            ("code", "class") => value.starts_with("language-").then(|| value.into()),
            _ => Some(value.into()),
        })
        // No link opens a new window, and the Referrer-Policy of the response covers the rest.
        .link_rel(None);
    sanitiser
});

#[cfg(test)]
mod tests;
