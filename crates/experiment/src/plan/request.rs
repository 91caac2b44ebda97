//! Converts a request of the file into a method and a path for `breme load`.

use breme_base::suggest_or_list;
use breme_load_plan::{RequestText, RequestTextError, TARGET_PLACEHOLDERS, check_target};
use breme_toml::{Collector, Entry, Span, Table, TreeNode, Value};

use super::resolver::Resolver;
use crate::file::METHODS;
use crate::file::positions::{At, Raw};

/// Method, if specified, and path.
pub(super) struct PlannedRequest {
    pub method: Option<String>,
    pub target: String,
}

impl Resolver<'_, '_> {
    pub(super) fn request(&mut self, request: &At<Raw>) -> Option<PlannedRequest> {
        let At { value: Raw(value), span } = request;
        match value {
            Value::Text(text) => written(text, span, self.collector),
            Value::Table(table) => from_table(table, span, self.collector),
            other => self.collector.reject(
                span,
                format!(
                    "a request is a string such as \"GET /page\" or a table such as {{ get = \"/page\" }}, not {}",
                    other.describe()
                ),
            ),
        }
    }
}

fn written(text: &str, span: &Span, collector: &mut Collector) -> Option<PlannedRequest> {
    let is_method = |method: &str| !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_uppercase());
    let RequestText { method, target } = noted(RequestText::parse(text, &['/']), text, span, collector)?;
    if !method.is_none_or(is_method) {
        return collector.reject(span, RequestTextError::Form(text.to_owned()));
    }
    check_placeholders(text, &[], span, collector)?;
    Some(PlannedRequest { method: method.map(str::to_owned), target: target.to_owned() })
}

/// The value, or none after reporting the error.
fn noted<T>(parsed: Result<T, RequestTextError>, text: &str, span: &Span, collector: &mut Collector) -> Option<T> {
    match &parsed {
        Err(problem @ RequestTextError::Form(_)) => collector.note(span, problem),
        Err(problem @ RequestTextError::Character { column, .. }) => {
            collector.note_within(span, text, *column, 1, problem);
        }
        Ok(_) => {}
    }
    parsed.ok()
}

fn from_table(table: &Table, span: &Span, collector: &mut Collector) -> Option<PlannedRequest> {
    let is_method = |entry: &&Entry| METHODS.contains(&entry.key.to_lowercase().as_str());
    let methods: Vec<&Entry> = table.entries.iter().filter(is_method).collect();
    let method = match methods.as_slice() {
        [method] => method,
        [] => {
            return collector.reject(span, "this request has no method and path; write for example get = \"/page\"");
        }
        [_, second, ..] => {
            let problem = "a request has one method; make another workload of the other one";
            return collector.reject(&second.key_span, problem);
        }
    };
    let Value::Text(target) = &method.node.value else {
        let described = method.node.value.describe();
        return collector.reject(&method.node.span, format!("expected a path such as \"/page\", found {described}"));
    };
    let at = &method.node.span;
    if !target.starts_with('/') {
        return collector.reject(at, format!("{target:?} is not a path; a path begins with '/'"));
    }
    noted(check_target(target), target, at, collector)?;
    let named: Vec<&Entry> = table.entries.iter().filter(|entry| !is_method(entry)).collect();
    let names: Vec<&str> = named.iter().map(|entry| entry.key.as_str()).collect();
    check_placeholders(target, &names, at, collector)?;
    let mut target = target.clone();
    for entry in named {
        let name = format!("{{{}}}", entry.key);
        if !target.contains(&name) {
            return collector.reject(&entry.key_span, format!("`{}` is not used; write {name} in the path", entry.key));
        }
        target = target.replace(&name, &placeholder(&entry.node, collector)?);
    }
    Some(PlannedRequest { method: Some(method.key.to_uppercase()), target })
}

/// Every `{name}` must be a placeholder of `breme load`, or defined in addition to the path.
fn check_placeholders(text: &str, names: &[&str], span: &Span, collector: &mut Collector) -> Option<()> {
    let mut from = 0;
    while let Some(start) = text[from..].find('{').map(|found| from + found) {
        let Some(end) = text[start..].find('}').map(|length| start + length) else {
            collector.note_within(span, text, text[..start].chars().count() + 1, 1, "this brace is not closed");
            return None;
        };
        let name = &text[start + 1..end];
        let kind = name.split(':').next().unwrap_or_default();
        let is_left = text[..start].ends_with('$') || name.starts_with('{');
        if !is_left && !names.contains(&name) && !TARGET_PLACEHOLDERS.contains(&kind) {
            let known: Vec<&str> = names.iter().copied().chain(TARGET_PLACEHOLDERS).collect();
            let hint = match breme_base::nearest(kind, known.iter().copied()) {
                Some(near) => format!("did you mean {{{near}}}?"),
                None => format!("define it: {{ get = {text:?}, {name} = {{ uniform = 1000 }} }}"),
            };
            collector.note_within(
                span,
                text,
                text[..start].chars().count() + 1,
                name.chars().count() + 2,
                format!("{{{name}}} is not a placeholder; {hint}"),
            );
            return None;
        }
        from = end + 1;
    }
    Some(())
}

/// `{ uniform = 1000 }` → `{uniform:1:1000}`.
fn placeholder(node: &TreeNode, collector: &mut Collector) -> Option<String> {
    let table = match &node.value {
        Value::Table(table) => table,
        Value::Text(text) => return Some(text.clone()),
        Value::Integer(number) => return Some(number.to_string()),
        other => {
            let problem = format!("expected {{ uniform = 1000 }} or the like, found {}", other.describe());
            return collector.reject(&node.span, problem);
        }
    };
    let is_unknown = |entry: &&Entry| !TARGET_PLACEHOLDERS.contains(&entry.key.as_str()) && entry.key != "exponent";
    if let Some(entry) = table.entries.iter().find(is_unknown) {
        let hint = suggest_or_list(&entry.key, TARGET_PLACEHOLDERS.into_iter());
        return collector.reject(&entry.key_span, format!("there is no placeholder `{}`; {hint}", entry.key));
    }
    let kinds: Vec<&Entry> = table.entries.iter().filter(|entry| entry.key != "exponent").collect();
    let [kind] = kinds.as_slice() else {
        return collector.reject(&node.span, "a placeholder is one of { uniform = 1000 }, { zipf = 1000, exponent = 0.9 }, { random = 20 } and { seq = true }");
    };
    let number = |node: &TreeNode, collector: &mut Collector| match whole(&node.value) {
        Some(number) => Some(number),
        None => collector.reject(&node.span, format!("expected a whole number, found {}", node.value.describe())),
    };
    Some(match (kind.key.as_str(), &kind.node.value) {
        ("seq", _) => "{seq}".to_owned(),
        ("uniform", Value::List(ends)) => {
            let [low, high] = ends.as_slice() else {
                return collector.reject(&kind.node.span, "a range needs two ends: [1, 1000]");
            };
            let (low_value, high_value) = (number(low, collector)?, number(high, collector)?);
            if low_value > high_value {
                return collector.reject(&kind.node.span, "this range is reversed; write the smaller number first");
            }
            format!("{{uniform:{low_value}:{high_value}}}")
        }
        ("uniform", _) => format!("{{uniform:1:{}}}", number(&kind.node, collector)?.max(1)),
        ("random", _) => format!("{{random:{}}}", number(&kind.node, collector)?),
        (_, _) => {
            let exponent =
                table.get("exponent").and_then(|entry| entry.node.value.plain()).unwrap_or_else(|| "1".to_owned());
            format!("{{zipf:{}:{exponent}}}", number(&kind.node, collector)?)
        }
    })
}

fn whole(value: &Value) -> Option<u64> {
    match value {
        Value::Integer(number) => u64::try_from(*number).ok(),
        Value::Text(text) => breme_base::parse_count(text).ok(),
        _ => None,
    }
}
