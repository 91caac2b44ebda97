//! What a request accepts and sends, and what is expected of its response.

use super::document::{Document, ReferenceError};
use super::node::{Map, Node};
use super::parameter::form_pairs;
use super::sample::Sampler;
use super::url::query;

/// What the documented responses say.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Success {
    /// Those of the class 2xx, and redirects; as in a check.
    pub(super) statuses: Option<String>,
    /// The media type of the first one with content.
    pub(super) media_type: Option<String>,
}

/// A request body.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Body {
    /// None is documented.
    None,
    Text {
        media_type: String,
        text: String,
    },
    /// Of a type of which no value can be made.
    Unknown,
}

pub(super) fn success(document: &Document, operation: &Node) -> Result<Success, ReferenceError> {
    let mut responses: Vec<(String, &Node)> = operation
        .entries("responses")
        .map(|(status, response)| (status.to_ascii_lowercase(), response))
        .filter(|(status, _)| is_success(status))
        .collect();
    responses.sort_by(|(one, _), (other, _)| one.cmp(other));
    let mut success = Success::default();
    for (_, response) in &responses {
        let content = document.resolve(response)?.entries("content").next();
        let media_type = content.map(|(media_type, _)| media_type.to_owned()).filter(|text| is_field_value(text));
        success.media_type = success.media_type.or(media_type);
    }
    let statuses: Vec<String> = responses.into_iter().map(|(status, _)| status).collect();
    success.statuses = Some(statuses.join(",")).filter(|statuses| !statuses.is_empty());
    Ok(success)
}

/// `200`, `2xx`, `302`. 304 is for requests with conditions.
fn is_success(status: &str) -> bool {
    let Some(rest) = status.strip_prefix(['2', '3']) else { return false };
    let is_code = rest.len() == 2 && rest.bytes().all(|byte| byte.is_ascii_digit());
    (is_code || rest == "xx") && status != "304"
}

/// The body of the first media type that is JSON or a form.
pub(super) fn body(document: &Document, operation: &Node) -> Result<Body, ReferenceError> {
    let Some(request_body) = operation.get("requestBody") else { return Ok(Body::None) };
    let request_body = document.resolve(request_body)?;
    let mut is_known = false;
    for (media_type, holder) in request_body.entries("content").filter(|(media_type, _)| is_field_value(media_type)) {
        let (is_json, is_form) = (is_json(media_type), media_type == "application/x-www-form-urlencoded");
        is_known |= is_json || is_form;
        let value = if is_json || is_form { Sampler::new(document).of_holder(holder)? } else { None };
        let text = match value {
            Some(value) if is_json => json(&value),
            Some(Node::Map(map)) => form(map, holder),
            _ => continue,
        };
        return Ok(Body::Text { media_type: media_type.to_owned(), text });
    }
    Ok(if is_known { Body::None } else { Body::Unknown })
}

fn form(map: Map, holder: &Node) -> String {
    let encoding = |name: &str| holder.get("encoding")?.get(name);
    let pairs = map.into_iter().flat_map(|(name, value)| form_pairs(&name, value, encoding(&name)));
    query(&pairs.collect::<Vec<_>>())
}

/// `application/json`, also with parameters, and `application/problem+json`.
fn is_json(media_type: &str) -> bool {
    let media_type = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    media_type == "application/json" || media_type.ends_with("+json")
}

fn json(value: &Node) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// Whether a header can have this value.
pub(super) fn is_field_value(text: &str) -> bool {
    text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(operation: &str) -> Document {
        let response = r#"{"content": {"text/html": {}, "text/csv": {}}}"#;
        let text = format!(r#"{{"openapi": "3.1.0", "r": {response}, "operation": {operation}}}"#);
        Document::parse(&text).unwrap()
    }

    #[test]
    fn every_documented_success_is_expected() {
        for (responses, statuses, media_type) in [
            (r##""404": {}, "204": {}, "200": {"$ref": "#/r"}"##, Some("200,204"), Some("text/html")),
            (r#""default": {}, "2XX": {}, "302": {}, "304": {}"#, Some("2xx,302"), None),
            (r#""default": {"content": {"text/html": {}}}"#, None, None),
            (r#""200": {"content": {"text/html\r\nX: y": {}}}, "2e2": {}, "201": {}"#, Some("200,201"), None),
            ("", None, None),
        ] {
            let document = document(&format!(r#"{{"responses": {{{responses}}}}}"#));
            let found = success(&document, document.root.get("operation").unwrap()).unwrap();
            assert_eq!((found.statuses.as_deref(), found.media_type.as_deref()), (statuses, media_type), "{responses}");
        }
    }

    fn body_of(content: &str) -> Body {
        let document = document(&format!(r#"{{"requestBody": {{"content": {{{content}}}}}}}"#));
        body(&document, document.root.get("operation").unwrap()).unwrap()
    }

    #[test]
    fn bodies_are_json_or_forms() {
        let text =
            |media_type: &str, text: &str| Body::Text { media_type: media_type.to_owned(), text: text.to_owned() };
        let (json, form) = ("application/json", "application/x-www-form-urlencoded");
        let schema = r#"{"schema": {"properties": {"a": {"example": "b c"}, "n": {"type": "integer"}}}}"#;
        assert_eq!(body_of(&format!("\"text/xml\": {{}}, \"{json}\": {schema}")), text(json, r#"{"a":"b c","n":1}"#));
        assert_eq!(body_of(&format!("\"{form}\": {schema}")), text(form, "a=b%20c&n=1"));
        // RFC 6570 by default; objects as JSON.
        for (encoding, expected) in [
            ("", "t=x%20y&t=1&o=%7B%22k%22%3A1%7D"),
            (r#""t": {"explode": false}, "o": {"style": "deepObject"}"#, "t=x%20y,1&o%5Bk%5D=1"),
            (r#""t": {"style": "pipeDelimited"}"#, "t=x%20y%7C1&o=%7B%22k%22%3A1%7D"),
        ] {
            let example = r#"{"t": ["x y", 1], "o": {"k": 1}}"#;
            let content = format!(r#""{form}": {{"example": {example}, "encoding": {{{encoding}}}}}"#);
            assert_eq!(body_of(&content), text(form, expected), "{encoding}");
        }
        let examples = r#"{"examples": {"e": {"value": [1]}}, "schema": {}}"#;
        assert_eq!(body_of(&format!("\"a/b+json; v=1\": {examples}")), text("a/b+json; v=1", "[1]"));
        assert_eq!(body_of("\"multipart/form-data\": {}"), Body::Unknown);
        let without = document("{}");
        assert_eq!(body(&without, without.root.get("operation").unwrap()).unwrap(), Body::None);
    }
}
