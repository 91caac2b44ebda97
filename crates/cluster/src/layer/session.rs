//! The session of a request, as seen by handlers.

use std::fmt;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use bytes::Bytes;
use http::StatusCode;
use http::request::Parts;
use parking_lot::{Mutex, MutexGuard};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use thiserror::Error;

/// The session of a request: typed values under names, or one body of bytes.
///
/// It contains what the last request of the session left. Changes are applied when the handler has responded; later
/// ones are refused. The values are stored as one JSON object, unless the handler writes the [body](Session::set_body).
#[derive(Clone)]
pub struct Session(Arc<Mutex<Contents>>);

struct Contents {
    stored: Bytes,
    now: Form,
    fate: Fate,
    is_closed: bool,
}

/// The current content of the session.
enum Form {
    /// Bytes, which may be encoded values.
    Bytes(Bytes),
    /// Values, decoded from the bytes.
    Values(Map<String, Value>, Bytes),
    /// Changed values.
    Changed(Map<String, Value>),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Keep,
    Renew,
    Destroy,
}

/// A change requested by a handler.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Nothing,
    Write(Bytes),
    Destroy,
    /// Continue under a new id, with this body.
    Rotate(Bytes),
}

impl Session {
    pub(super) fn new(body: Bytes) -> Self {
        let now = Form::Bytes(body.clone());
        Self(Arc::new(Mutex::new(Contents { stored: body, now, fate: Fate::Keep, is_closed: false })))
    }

    /// Returns the value of a name.
    ///
    /// # Errors
    ///
    /// If it is of another type, or the session contains bytes that are no encoded values.
    pub fn get<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, SessionError> {
        let mut contents = self.0.lock();
        let value = contents.now.values()?.get(name);
        value.map(|value| T::deserialize(value).map_err(|error| SessionError::value(name, &error))).transpose()
    }

    /// Sets the value of a name. A value equal to the current one is no change.
    ///
    /// # Errors
    ///
    /// If it cannot be encoded as JSON, the session contains bytes that are no encoded values, or the handler has
    /// responded.
    pub fn insert<T: Serialize>(&self, name: &str, value: T) -> Result<(), SessionError> {
        let value = serde_json::to_value(value).map_err(|error| SessionError::value(name, &error))?;
        let mut contents = self.open()?;
        if contents.now.values()?.get(name) != Some(&value) {
            contents.now.change()?.insert(name.to_owned(), value);
        }
        Ok(())
    }

    /// Removes a name. Returns whether it had a value.
    ///
    /// # Errors
    ///
    /// If the session contains bytes that are no encoded values, or the handler has responded.
    pub fn remove(&self, name: &str) -> Result<bool, SessionError> {
        let mut contents = self.open()?;
        let is_there = contents.now.values()?.contains_key(name);
        if is_there {
            contents.now.change()?.remove(name);
        }
        Ok(is_there)
    }

    /// The whole content of the session; empty if it is new.
    #[must_use]
    pub fn body(&self) -> Bytes {
        self.0.lock().now.bytes()
    }

    /// Replaces the content of the session.
    ///
    /// # Errors
    ///
    /// If the handler has responded.
    pub fn set_body(&self, body: impl Into<Bytes>) -> Result<(), SessionError> {
        self.open()?.now = Form::Bytes(body.into());
        Ok(())
    }

    /// Continues the session under a new id and ends the old one: for each login, to prevent session fixation.
    ///
    /// # Errors
    ///
    /// If the handler has responded.
    pub fn renew(&self) -> Result<(), SessionError> {
        let mut contents = self.open()?;
        if contents.fate == Fate::Keep {
            contents.fate = Fate::Renew;
        }
        Ok(())
    }

    /// Ends the session and deletes its content: for logout. Later writes begin a new session.
    ///
    /// # Errors
    ///
    /// If the handler has responded.
    pub fn destroy(&self) -> Result<(), SessionError> {
        let mut contents = self.open()?;
        contents.fate = Fate::Destroy;
        contents.now = Form::Bytes(Bytes::new());
        Ok(())
    }

    /// Called when the handler has responded.
    pub(super) fn close(&self) -> Wish {
        let mut contents = self.0.lock();
        contents.is_closed = true;
        let body = contents.now.bytes();
        match contents.fate {
            Fate::Keep if body == contents.stored => Wish::Nothing,
            Fate::Keep => Wish::Write(body),
            Fate::Destroy if body.is_empty() => Wish::Destroy,
            Fate::Renew | Fate::Destroy => Wish::Rotate(body),
        }
    }

    /// Works after a handler has panicked, too: each change is one step, so none is partial.
    fn open(&self) -> Result<MutexGuard<'_, Contents>, SessionError> {
        let contents = self.0.lock();
        if contents.is_closed { Err(SessionError::Closed) } else { Ok(contents) }
    }
}

impl Form {
    fn values(&mut self) -> Result<&Map<String, Value>, SessionError> {
        if let Self::Bytes(bytes) = self {
            let values = if bytes.is_empty() { Ok(Map::new()) } else { serde_json::from_slice(bytes) };
            *self = Self::Values(values.map_err(|_| SessionError::NoValues)?, std::mem::take(bytes));
        }
        match self {
            Self::Values(values, _) | Self::Changed(values) => Ok(values),
            Self::Bytes(_) => Err(SessionError::NoValues),
        }
    }

    fn change(&mut self) -> Result<&mut Map<String, Value>, SessionError> {
        self.values()?;
        if let Self::Values(values, _) = self {
            *self = Self::Changed(std::mem::take(values));
        }
        match self {
            Self::Changed(values) => Ok(values),
            Self::Bytes(_) | Self::Values(..) => Err(SessionError::NoValues),
        }
    }

    fn bytes(&self) -> Bytes {
        match self {
            Self::Bytes(bytes) | Self::Values(_, bytes) => bytes.clone(),
            Self::Changed(values) if values.is_empty() => Bytes::new(),
            // Values with string keys can always be encoded.
            Self::Changed(values) => serde_json::to_vec(values).unwrap_or_default().into(),
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Session({} bytes)", self.body().len())
    }
}

impl<S: Sync> FromRequestParts<S> for Session {
    type Rejection = (StatusCode, &'static str);

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let session = parts.extensions.get::<Self>().cloned();
        session.ok_or((StatusCode::INTERNAL_SERVER_ERROR, "the route has no session: add SessionLayer to its router\n"))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SessionError {
    /// This value cannot be converted to or from the requested type.
    #[error("the session's value `{name}` has another type: {why}")]
    Value {
        /// Name of the value.
        name: String,
        why: String,
    },
    /// The session contains bytes that are no encoded values.
    #[error("the session holds bytes, not named values: use `body`")]
    NoValues,
    /// The handler has responded: it is too late for changes.
    #[error("the session was changed after its response: change it before")]
    Closed,
}

impl SessionError {
    fn value(name: &str, error: &serde_json::Error) -> Self {
        Self::Value { name: name.to_owned(), why: error.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_of_their_types() {
        let session = Session::new(Bytes::new());
        session.insert("user", "ann").unwrap();
        session.insert("count", 7_u32).unwrap();
        assert_eq!(session.get("user"), Ok(Some("ann".to_owned())));
        assert_eq!(session.get("count"), Ok(Some(7_u64)));
        assert_eq!(session.get::<u32>("none"), Ok(None));
        let error = session.get::<u32>("user").unwrap_err();
        assert!(error.to_string().starts_with("the session's value `user` has another type"), "{error}");
        assert_eq!(session.remove("user"), Ok(true));
        assert_eq!(session.remove("user"), Ok(false));
        assert_eq!(session.close(), Wish::Write(r#"{"count":7}"#.into()));
    }

    #[test]
    fn only_another_value_is_a_change() {
        let stored = || Session::new(r#"{"b": 1,  "a": [1]}"#.into());
        let session = stored();
        assert_eq!(session.get("a"), Ok(Some(vec![1])));
        session.insert("b", 1).unwrap();
        assert_eq!(session.close(), Wish::Nothing);
        let session = stored();
        session.insert("b", 2).unwrap();
        assert!(matches!(session.close(), Wish::Write(_)));
        let session = stored();
        session.set_body(session.body()).unwrap();
        assert_eq!(session.close(), Wish::Nothing);
    }

    #[test]
    fn bytes_are_no_values() {
        let session = Session::new("a=b\n".into());
        assert_eq!(session.get::<u32>("a"), Err(SessionError::NoValues));
        assert_eq!(session.insert("a", 1), Err(SessionError::NoValues));
        assert_eq!(session.close(), Wish::Nothing, "nothing is lost");
    }

    #[test]
    fn login_and_logout() {
        let stored = || Session::new(r#"{"a":1}"#.into());
        let session = stored();
        session.renew().unwrap();
        assert_eq!(session.close(), Wish::Rotate(r#"{"a":1}"#.into()));
        let session = stored();
        session.destroy().unwrap();
        assert_eq!(session.get::<u32>("a"), Ok(None));
        session.renew().unwrap();
        assert_eq!(session.close(), Wish::Destroy);
        let session = stored();
        session.destroy().unwrap();
        session.insert("b", 2).unwrap();
        assert_eq!(session.close(), Wish::Rotate(r#"{"b":2}"#.into()), "never under the old id");
    }

    #[test]
    fn after_the_response_nothing_changes() {
        let session = Session::new(Bytes::new());
        assert_eq!(session.close(), Wish::Nothing);
        let late = [session.insert("a", 1), session.set_body("b"), session.renew(), session.destroy()];
        assert_eq!(late, [const { Err(SessionError::Closed) }; 4]);
    }
}
