//! Parameters of an operation, and their values as text.

use super::document::{Document, ReferenceError};
use super::node::Node;
use super::sample::Sampler;
use crate::encoding::encoded;

/// Parameters of an operation that are read.
pub(super) const PARAMETER_COUNT_MAX: usize = 100;
/// What `Accept` and `Content-Type` are is said elsewhere (OpenAPI 3.1, 4.8.12.2).
const IGNORED_HEADERS: [&str; 2] = ["accept", "content-type"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Path,
    Query,
    Header,
    Cookie,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Parameter<'a> {
    pub(super) place: Place,
    pub(super) name: &'a str,
    node: &'a Node,
}

/// A value, and how a parameter writes it.
pub(super) struct Value {
    node: Node,
    /// Whether a part of it is not documented.
    pub(super) is_invented: bool,
    style: String,
    is_exploded: bool,
}

/// The required parameters of an operation; those of its path come first.
pub(super) fn required_parameters<'a>(
    document: &'a Document,
    path_item: &'a Node,
    operation: &'a Node,
) -> Result<Vec<Parameter<'a>>, ReferenceError> {
    let mut parameters: Vec<Parameter<'a>> = Vec::new();
    for node in path_item.items("parameters").iter().chain(operation.items("parameters")).take(PARAMETER_COUNT_MAX) {
        let Some(parameter) = Parameter::read(document.resolve(node)?) else { continue };
        let is_same = |other: &&mut Parameter<'_>| (other.place, other.name) == (parameter.place, parameter.name);
        match parameters.iter_mut().find(is_same) {
            Some(of_path) => *of_path = parameter,
            None => parameters.push(parameter),
        }
    }
    parameters.retain(|parameter| parameter.is_required());
    Ok(parameters)
}

impl<'a> Parameter<'a> {
    fn read(node: &'a Node) -> Option<Self> {
        let place = match node.text("in")? {
            "path" => Place::Path,
            "query" => Place::Query,
            "header" => Place::Header,
            "cookie" => Place::Cookie,
            _ => return None,
        };
        let name = node.text("name").filter(|name| !name.is_empty())?;
        let is_ignored = place == Place::Header && IGNORED_HEADERS.iter().any(|other| other.eq_ignore_ascii_case(name));
        (!is_ignored).then_some(Self { place, name, node })
    }

    fn is_required(&self) -> bool {
        self.place == Place::Path || self.node.flag("required") == Some(true)
    }

    pub(super) fn value(&self, document: &'a Document) -> Result<Value, ReferenceError> {
        let mut sampler = Sampler::new(document);
        let mut node = sampler.of_holder(self.node)?;
        // The content of a parameter is a text in a media type, of which JSON is the only one in use.
        let content = self.node.entries("content").next();
        if let (None, Some((_, media_type))) = (&node, content) {
            node = sampler.of_holder(media_type)?.map(|value| Node::Text(value.to_string()));
        }
        let style = self.node.text("style").unwrap_or(if self.place == Place::Query { "form" } else { "simple" });
        Ok(Value {
            is_invented: sampler.has_invented || node.is_none(),
            node: node.unwrap_or_else(|| Node::Text(String::from("x"))),
            style: style.to_owned(),
            is_exploded: self.node.flag("explode").unwrap_or(style == "form"),
        })
    }
}

impl Value {
    /// What a path contains without a documented parameter.
    pub(super) fn unknown() -> Self {
        let (node, style) = (Node::Text(String::from("x")), String::from("simple"));
        Self { node, is_invented: true, style, is_exploded: false }
    }

    /// As a part of a path, encoded and not empty.
    pub(super) fn in_path(&self, name: &str) -> String {
        let (before, text) = match self.style.as_str() {
            "label" => (".", self.joined(if self.is_exploded { "." } else { "," }, &|text| encoded(text))),
            "matrix" => ("", self.in_matrix(name)),
            _ => ("", self.joined(",", &|text| encoded(text))),
        };
        format!("{before}{}", if text.is_empty() { "x" } else { &text })
    }

    /// `;a=1;a=2` (RFC 6570, 3.2.7).
    fn in_matrix(&self, name: &str) -> String {
        let pairs = self.in_query(name).into_iter();
        pairs
            .map(|(name, value)| format!(";{}={}", encoded(&name), if value.is_empty() { "x" } else { &value }))
            .collect()
    }

    pub(super) fn in_header(&self) -> String {
        self.joined(",", &str::to_owned)
    }

    /// As pairs of a query, whose values are encoded.
    pub(super) fn in_query(&self, name: &str) -> Vec<(String, String)> {
        match &self.node {
            Node::List(items) if self.is_exploded => items.iter().map(|item| pair(name, item)).collect(),
            Node::Map(map) if self.style == "deepObject" => {
                map.iter().map(|(key, value)| pair(&format!("{name}[{key}]"), value)).collect()
            }
            Node::Map(map) if self.is_exploded => map.iter().map(|(key, value)| pair(key, value)).collect(),
            _ => {
                let separator = match self.style.as_str() {
                    "spaceDelimited" => "%20",
                    "pipeDelimited" => "%7C",
                    _ => ",",
                };
                vec![(name.to_owned(), self.joined(separator, &|text| encoded(text)))]
            }
        }
    }

    fn joined(&self, separator: &str, encode: &dyn Fn(&str) -> String) -> String {
        let texts: Vec<String> = match &self.node {
            Node::List(items) => items.iter().map(|item| encode(&item.to_string())).collect(),
            Node::Map(map) => {
                let between = if self.is_exploded { "=" } else { separator };
                map.iter()
                    .map(|(key, value)| format!("{}{between}{}", encode(key), encode(&value.to_string())))
                    .collect()
            }
            scalar => vec![encode(&scalar.to_string())],
        };
        texts.join(separator)
    }
}

/// The pairs of a property in a form. Without a style, objects are JSON (OpenAPI 3.1, 4.8.15.1).
pub(super) fn form_pairs(name: &str, node: Node, encoding: Option<&Node>) -> Vec<(String, String)> {
    let style = encoding.and_then(|encoding| encoding.text("style"));
    let explode = encoding.and_then(|encoding| encoding.flag("explode"));
    if matches!(node, Node::Map(_)) && style.is_none() && explode.is_none() {
        return vec![pair(name, &node)];
    }
    let style = style.unwrap_or("form").to_owned();
    let is_exploded = explode.unwrap_or(style == "form");
    Value { node, is_invented: false, style, is_exploded }.in_query(name)
}

/// A pair of a query or a form, whose value is encoded.
fn pair(name: &str, value: &Node) -> (String, String) {
    (name.to_owned(), encoded(&value.to_string()))
}

#[cfg(test)]
mod tests {
    use super::super::url::query;
    use super::*;

    fn document(item: &str, parameters: &str) -> Document {
        let text = format!(
            r#"{{"openapi": "3.1.0", "p": {{"name": "shared", "in": "path", "example": 3}},
                "item": {{"parameters": {item}}}, "operation": {{"parameters": {parameters}}}}}"#
        );
        Document::parse(&text).unwrap()
    }

    fn parameters(document: &Document) -> Vec<Parameter<'_>> {
        let node = |key| document.root.get(key).unwrap();
        required_parameters(document, node("item"), node("operation")).unwrap()
    }

    #[test]
    fn parameters_of_the_path_are_shared_and_replaced() {
        let document = document(
            r##"[{"$ref": "#/p"}, {"name": "a", "in": "query", "required": true, "example": 1}]"##,
            r#"[{"name": "a", "in": "query", "required": true, "example": 2}, {"name": "a", "in": "header"},
                {"name": "Accept", "in": "header", "required": true}, {"name": "b", "in": "query"}]"#,
        );
        let found = parameters(&document);
        let places: Vec<_> = found.iter().map(|parameter| (parameter.place, parameter.name)).collect();
        assert_eq!(places, [(Place::Path, "shared"), (Place::Query, "a")]);
        assert_eq!(found[0].value(&document).unwrap().in_path("shared"), "3");
        assert_eq!(query(&found[1].value(&document).unwrap().in_query("a")), "a=2");
    }

    /// The value of a parameter with these fields, in a query and in a path.
    fn written(fields: &str) -> (String, String) {
        let document = document("[]", &format!(r#"[{{"name": "a", "in": "path", {fields}}}]"#));
        let of_path = parameters(&document)[0].value(&document).unwrap().in_path("a");
        let text = format!(r#"[{{"name": "a", "in": "query", "required": true, {fields}}}]"#);
        let document = self::document("[]", &text);
        let value = parameters(&document)[0].value(&document).unwrap();
        (query(&value.in_query("a")), of_path)
    }

    #[test]
    fn values_have_the_style_of_their_parameter() {
        let list = r#""example": ["b c", 1]"#;
        let map = r#""example": {"k": "v", "n": 2}"#;
        for (fields, in_query, in_path) in [
            (r#""example": "ä/?""#.to_owned(), "a=%C3%A4%2F%3F", "%C3%A4%2F%3F"),
            (r#""example": """#.to_owned(), "a=", "x"),
            (list.to_owned(), "a=b%20c&a=1", "b%20c,1"),
            (format!(r#"{list}, "explode": false"#), "a=b%20c,1", "b%20c,1"),
            (format!(r#"{list}, "style": "pipeDelimited""#), "a=b%20c%7C1", "b%20c,1"),
            (format!(r#"{list}, "style": "spaceDelimited""#), "a=b%20c%201", "b%20c,1"),
            (map.to_owned(), "k=v&n=2", "k,v,n,2"),
            (format!(r#"{map}, "explode": false"#), "a=k,v,n,2", "k,v,n,2"),
            (format!(r#"{map}, "style": "deepObject""#), "a%5Bk%5D=v&a%5Bn%5D=2", "k,v,n,2"),
        ] {
            assert_eq!(written(&fields), (in_query.to_owned(), in_path.to_owned()), "{fields}");
        }
        assert_eq!(written(&format!(r#"{list}, "style": "label", "explode": true"#)).1, ".b%20c.1");
        // Those of OpenAPI 3.1, 4.8.12.4.
        for (fields, expected) in [
            (r#""example": 1"#.to_owned(), ";a=1"),
            (r#""example": """#.to_owned(), ";a=x"),
            (list.to_owned(), ";a=b%20c,1"),
            (format!(r#"{list}, "explode": true"#), ";a=b%20c;a=1"),
            (map.to_owned(), ";a=k,v,n,2"),
            (format!(r#"{map}, "explode": true"#), ";k=v;n=2"),
        ] {
            assert_eq!(written(&format!(r#"{fields}, "style": "matrix""#)).1, expected, "{fields}");
        }
    }

    #[test]
    fn values_come_from_examples_content_and_schema() {
        for (fields, expected) in [
            (r#""example": 1, "examples": {"e": {"value": 2}}, "schema": {"example": 3}"#, "1"),
            (r#""examples": {"e": {"value": 2}, "f": {"value": 4}}, "schema": {"example": 3}"#, "2"),
            (r#""schema": {"example": 3}"#, "3"),
            (r#""content": {"application/json": {"example": {"k": 1}}}"#, "%7B%22k%22%3A1%7D"),
            (r#""schema": {}"#, "x"),
            (r#""description": """#, "x"),
        ] {
            assert_eq!(written(fields).1, expected, "{fields}");
        }
    }
}
