//! OpenAPI descriptions (3.0 and 3.1), in JSON or YAML: a step for each operation, in their order.
//!
//! Operations whose methods are not safe (RFC 9110, 9.2.1) are comments in the scenario: a load that deletes what it
//! finds must be a decision.

mod content;
mod document;
mod node;
mod operation;
mod parameter;
mod sample;
mod security;
mod server;
mod url;
mod variables;

use breme_http::syntax::is_token;
use content::{Body, Success};
use document::Document;
use operation::{Fault, Operation};
use parameter::{Parameter, Place, Value};
use security::{COOKIE_REMEDY, Needs};
use server::Server;
use variables::Variables;

use super::Imported;
use super::notes::{NAMED_MAX, counted, shortened};
use super::recording::{Limits, RecordedRequest, RecordedSession, Recording, keep_first};
use super::secrets::{is_secret, variable_name};

/// The operations as the steps of one session.
///
/// # Errors
/// It is not such a description, or none of its operations can be imported.
pub fn read(text: &str, limits: Limits) -> Imported {
    let document = Document::parse(text).map_err(|problem| problem.to_string())?;
    let (mut operations, mut faults) = operation::all(&document);
    if operations.is_empty() && faults.is_empty() {
        return Err(document::DocumentError::NoOperation.to_string());
    }
    let mut notes: Vec<String> = keep_first(&mut operations, limits).into_iter().collect();
    let server = Server::of(&document);
    let mut import = Import::new(&document, &server.prefix);
    let mut requests = Vec::new();
    for operation in &operations {
        match import.request(operation) {
            Ok(request) => requests.push(request),
            Err(fault) => faults.push(format!("{operation} is left out: {}: {fault}", operation.pointer())),
        }
    }
    if requests.is_empty() {
        return Err(faults.swap_remove(0));
    }
    notes.extend(shortened(faults, "operation", "operations"));
    notes.extend(server.note);
    notes.extend(note_of_comments(&requests));
    notes.extend(import.notes());
    let session = RecordedSession { name: String::from("openapi"), weight: 1, requests };
    Ok(Recording { base: server.base, variables: import.variables.into_list(), sessions: vec![session], notes })
}

/// What the operations have in common.
struct Import<'a> {
    document: &'a Document,
    /// Of each path.
    prefix: &'a str,
    variables: Variables,
    needs: Needs,
    /// Operations with servers of their own.
    elsewhere: usize,
    /// Bodies of which no value can be made.
    unknown_bodies: usize,
}

impl<'a> Import<'a> {
    fn new(document: &'a Document, prefix: &'a str) -> Self {
        let (variables, needs) = (Variables::default(), Needs::default());
        Self { document, prefix, variables, needs, elsewhere: 0, unknown_bodies: 0 }
    }

    fn request(&mut self, operation: &Operation<'a>) -> Result<RecordedRequest, Fault> {
        let parameters = parameter::required_parameters(self.document, operation.item, operation.node)?;
        let parameters = parameters
            .into_iter()
            .map(|parameter| parameter.value(self.document).map(|value| (parameter, value)))
            .collect::<Result<Vec<_>, _>>()?;
        let success = content::success(self.document, operation.node)?;
        let is_safe = operation.is_safe();
        let body = if is_safe { Body::None } else { content::body(self.document, operation.node)? };
        let headers = headers(&parameters, &success, &body)?;
        let path = operation.path.split('#').next().unwrap_or_default();
        if !path.starts_with('/') {
            return Err(Fault::Path);
        }
        self.elsewhere += usize::from(operation.has_own_servers());
        self.unknown_bodies += usize::from(body == Body::Unknown);
        Ok(RecordedRequest {
            method: operation.method.to_owned(),
            target: self.target(path, operation, &parameters),
            is_template: true,
            headers,
            body: if let Body::Text { text, .. } = body { Some(text) } else { None },
            status: success.statuses,
            is_comment: !is_safe,
            ..RecordedRequest::default()
        })
    }

    /// Path and query, encoded, with placeholders.
    fn target(&mut self, path: &str, operation: &Operation<'a>, parameters: &[(Parameter<'a>, Value)]) -> String {
        let values: Vec<_> = parameters.iter().filter(|(parameter, _)| parameter.place == Place::Path).collect();
        let path = self.variables.path(path, |name| {
            let found = values.iter().find(|(parameter, _)| parameter.name == name);
            found.map(|(_, value)| value)
        });
        let mut pairs = Vec::new();
        for (parameter, value) in parameters {
            match parameter.place {
                Place::Query if is_secret(parameter.name) => pairs.push(self.key(parameter.name)),
                Place::Query => {
                    self.variables.note_in_step(parameter.name, value);
                    pairs.extend(value.in_query(parameter.name));
                }
                Place::Cookie => self.needs.add(format!("the cookie {:?}: {COOKIE_REMEDY}", parameter.name)),
                Place::Header if !is_secret(parameter.name) => self.variables.note_in_step(parameter.name, value),
                Place::Path | Place::Header => {}
            }
        }
        for name in self.needs.add_schemes(self.document, operation.node) {
            if !pairs.iter().any(|(other, _)| *other == name) {
                pairs.push(self.key(&name));
            }
        }
        let separator = match (pairs.is_empty(), path.contains('?')) {
            (true, _) => "",
            (false, true) => "&",
            (false, false) => "?",
        };
        format!("{}{path}{separator}{}", self.prefix, url::query(&pairs))
    }

    /// A secret pair of a query, whose value the user sets.
    fn key(&mut self, name: &str) -> (String, String) {
        let placeholder = self.variables.secret(&variable_name(name));
        let variable = placeholder.trim_matches(['{', '}']);
        self.needs.add(format!("the key {name:?} in the query: add --var {variable}=KEY to breme load"));
        (name.to_owned(), placeholder)
    }

    fn notes(&self) -> Vec<String> {
        let mut notes: Vec<String> = self.needs.notes().collect();
        notes.extend(self.variables.notes());
        if self.elsewhere > 0 {
            let one = "operation has a server of its own, but goes";
            let operations = counted(self.elsewhere, one, "operations have servers of their own, but go");
            notes.push(format!("{operations} to that of the others"));
        }
        if self.unknown_bodies > 0 {
            let bodies = counted(self.unknown_bodies, "body is", "bodies are");
            notes.push(format!("{bodies} neither JSON nor a form, and left out; write such bodies into the file"));
        }
        notes
    }
}

fn headers(
    parameters: &[(Parameter<'_>, Value)],
    success: &Success,
    body: &Body,
) -> Result<Vec<(String, String)>, Fault> {
    let mut headers: Vec<(String, String)> = Vec::new();
    headers.extend(success.media_type.iter().map(|media_type| (String::from("Accept"), media_type.clone())));
    if let Body::Text { media_type, .. } = body {
        headers.push((String::from("Content-Type"), media_type.clone()));
    }
    for (parameter, value) in parameters.iter().filter(|(parameter, _)| parameter.place == Place::Header) {
        let text = value.in_header();
        if !is_token(parameter.name.as_bytes()) || !content::is_field_value(&text) {
            return Err(Fault::Header(parameter.name.to_owned()));
        }
        headers.push((parameter.name.to_owned(), text));
    }
    Ok(headers)
}

fn note_of_comments(requests: &[RecordedRequest]) -> Option<String> {
    let comments: Vec<&RecordedRequest> = requests.iter().filter(|request| request.is_comment).collect();
    let names = comments.iter().take(NAMED_MAX).map(|request| format!("{} {}", request.method, request.target));
    let names = names.collect::<Vec<_>>().join(", ") + if comments.len() > NAMED_MAX { ", …" } else { "" };
    match comments.len() {
        0 => None,
        count if count == requests.len() => Some(format!(
            "every operation changes what the server stores, and is a comment in the scenario; remove \"# \" from \
             those that a load may send: {names}"
        )),
        count => {
            let one = "operation changes what the server stores, and is a comment";
            let operations = counted(count, one, "operations change what the server stores, and are comments");
            Some(format!("{operations} in the scenario: {names}"))
        }
    }
}

#[cfg(test)]
mod tests;
