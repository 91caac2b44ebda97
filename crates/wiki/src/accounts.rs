//! Accounts, sessions and API tokens, stored as values of the database.
//!
//! | key | value |
//! |---|---|
//! | `user:NAME` | [`User`] as JSON: the hash of the password, the role |
//! | `session:DIGEST` | `LoginSession` as JSON, under the SHA-256 of the cookie |
//! | `token:DIGEST` | [`Token`] as JSON, under the SHA-256 of the token |
//!
//! Read access to the database does not allow anyone to sign in: passwords are hashed with Argon2id, and cookies and
//! tokens, which have 256 random bits, with SHA-256.

use argon2::Argon2;
use argon2::password_hash::{PasswordHash, PasswordHasher, PasswordVerifier, SaltString};
use breme_wiki_database::digest::{hex, sha256};
use breme_wiki_database::name::Name;
use breme_wiki_database::page::Millis;
use breme_wiki_database::{Database, DatabaseError};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::calendar::now;

/// How long a session lasts, ms.
pub(crate) const SESSION_MILLIS: Millis = 30 * 24 * 3600 * 1000;
const PASSWORD_CHARS_MIN: usize = 10;
/// Limit of a password, in bytes, since hashing takes time.
const PASSWORD_BYTES_MAX: usize = 1024;
/// The prefix of tokens, by which people and secret scanners recognise them.
const TOKEN_PREFIX: &str = "breme_";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    Read,
    Write,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct User {
    /// Argon2id, with its parameters and salt (PHC string).
    pub(crate) password: String,
    pub scope: Scope,
    /// When the password was set.
    pub since: Millis,
}

/// A signed-in browser.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct LoginSession {
    user: String,
    /// The digest of the hash of the password with which it began: it ends when another is set.
    password: String,
    since: Millis,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Token {
    /// The purpose, and the author of its changes.
    pub label: String,
    pub scope: Scope,
    pub since: Millis,
}

/// Why an account cannot be used or changed.
#[derive(Debug, Error)]
pub enum AccountError {
    /// The password is too short or too long.
    #[error(
        "a password has {min} characters or more, and at most {max} bytes",
        min = PASSWORD_CHARS_MIN,
        max = PASSWORD_BYTES_MAX
    )]
    Password,
    #[error("an account with this name already exists")]
    Taken,
    /// The operating system returned no random numbers, or the hash failed.
    #[error("cannot hash the password: {0}")]
    Random(String),
    #[error(transparent)]
    Database(#[from] DatabaseError),
}

/// 256 random bits, hexadecimal.
///
/// # Errors
///
/// The operating system returned none.
pub fn secret() -> Result<String, AccountError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| AccountError::Random(error.to_string()))?;
    Ok(hex(&bytes))
}

fn read<'a, T: Deserialize<'a>>(text: &'a str) -> Option<T> {
    serde_json::from_str(text).ok()
}

fn written(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default() // structs of texts and numbers can always be written
}

/// The hash of a password. It takes some 20 ms and 19 MiB.
fn hash(password: &str) -> Result<String, AccountError> {
    if password.chars().count() < PASSWORD_CHARS_MIN || password.len() > PASSWORD_BYTES_MAX {
        return Err(AccountError::Password);
    }
    let fault = |error: &dyn std::fmt::Display| AccountError::Random(error.to_string());
    let mut salt = [0; 16];
    getrandom::fill(&mut salt).map_err(|error| fault(&error))?;
    let salt = SaltString::encode_b64(&salt).map_err(|error| fault(&error))?;
    Ok(Argon2::default().hash_password(password.as_bytes(), &salt).map_err(|error| fault(&error))?.to_string())
}

/// Whether the password matches the hash. Takes as long as [`hash`].
pub(crate) fn is_password(password: &str, hash: &str) -> bool {
    let Ok(hash) = PasswordHash::new(hash) else { return false };
    password.len() <= PASSWORD_BYTES_MAX && Argon2::default().verify_password(password.as_bytes(), &hash).is_ok()
}

/// Creates an account.
///
/// # Errors
///
/// The name is taken, the password too short, or the database failed.
pub async fn add_user(database: &dyn Database, name: &Name, password: &str, scope: Scope) -> Result<(), AccountError> {
    let user = User { password: hash(password)?, scope, since: now() };
    match database.set_value(&format!("user:{name}"), Some(None), Some(&written(&user))).await? {
        true => Ok(()),
        false => Err(AccountError::Taken),
    }
}

/// Sets another password for an account, and ends its sessions. Returns whether there is such an account.
///
/// # Errors
///
/// The password is too short, or the database failed.
pub async fn set_password(database: &dyn Database, name: &Name, password: &str) -> Result<bool, AccountError> {
    let key = format!("user:{name}");
    let hash = hash(password)?;
    loop {
        let Some(stored) = database.value(&key).await? else { return Ok(false) };
        if replace_password(database, &key, &stored, &hash).await? {
            return Ok(true);
        }
        // It was changed or removed in the meantime.
    }
}

/// Replaces the password of the stored account. Returns whether it was still the same.
async fn replace_password(database: &dyn Database, key: &str, stored: &str, hash: &str) -> Result<bool, DatabaseError> {
    let unreadable = || DatabaseError {
        action: "set the password",
        reason: format!("the value {key} is not an account"),
        is_temporary: false,
    };
    let user: User = read(stored).ok_or_else(unreadable)?;
    let user = User { password: hash.to_owned(), since: now(), ..user };
    database.set_value(key, Some(Some(stored)), Some(&written(&user))).await
}

/// Removes an account and its sessions. Returns whether there was one.
///
/// # Errors
///
/// The database failed.
pub async fn remove_user(database: &dyn Database, name: &Name) -> Result<bool, DatabaseError> {
    let key = format!("user:{name}");
    let existed = database.value(&key).await?.is_some() && database.set_value(&key, None, None).await?;
    // They have ended, but contain the name.
    remove_sessions(database, |session| session.user == name.as_str()).await?;
    Ok(existed)
}

pub(crate) async fn user(database: &dyn Database, name: &str) -> Result<Option<User>, DatabaseError> {
    Ok(database.value(&format!("user:{name}")).await?.as_deref().and_then(read))
}

/// All accounts.
///
/// # Errors
///
/// The database failed.
pub async fn users(database: &dyn Database) -> Result<Vec<(String, User)>, DatabaseError> {
    let values = database.values("user:").await?;
    Ok(values.iter().filter_map(|(key, value)| Some((key.strip_prefix("user:")?.to_owned(), read(value)?))).collect())
}

/// Whether there are accounts or tokens.
///
/// # Errors
///
/// The database failed.
pub async fn exist(database: &dyn Database) -> Result<bool, DatabaseError> {
    Ok(!users(database).await?.is_empty() || !tokens(database).await?.is_empty())
}

/// Creates a session of an account whose password was verified. Returns the value of its cookie.
pub(crate) async fn begin_session(
    database: &dyn Database,
    name: &str,
    verified: &User,
) -> Result<String, AccountError> {
    let secret = secret()?;
    let password = sha256(verified.password.as_bytes());
    let session = LoginSession { user: name.to_owned(), password, since: now() };
    database.set_value(&format!("session:{}", sha256(secret.as_bytes())), None, Some(&written(&session))).await?;
    Ok(secret)
}

/// The account of a session that has not expired.
pub(crate) async fn session(database: &dyn Database, secret: &str) -> Result<Option<(String, User)>, DatabaseError> {
    let value = database.value(&format!("session:{}", sha256(secret.as_bytes()))).await?;
    let Some(session) = value.as_deref().and_then(read::<LoginSession>) else { return Ok(None) };
    let user = user(database, &session.user).await?;
    let lasts =
        |user: &User| session.password == sha256(user.password.as_bytes()) && now() < session.since + SESSION_MILLIS;
    Ok(user.filter(lasts).map(|user| (session.user, user)))
}

pub(crate) async fn end_session(database: &dyn Database, secret: &str) -> Result<(), DatabaseError> {
    database.set_value(&format!("session:{}", sha256(secret.as_bytes())), None, None).await.map(drop)
}

/// Removes expired sessions. Returns how many.
///
/// # Errors
///
/// The database failed.
pub async fn remove_expired_sessions(database: &dyn Database) -> Result<usize, DatabaseError> {
    remove_sessions(database, |session| now() >= session.since + SESSION_MILLIS).await
}

/// Removes the sessions for which `is_over` is true, and those that cannot be read. Returns how many.
async fn remove_sessions(
    database: &dyn Database,
    is_over: impl Fn(&LoginSession) -> bool,
) -> Result<usize, DatabaseError> {
    let mut removed = 0;
    for (key, value) in database.values("session:").await? {
        if read(&value).is_none_or(|session| is_over(&session)) {
            database.set_value(&key, None, None).await?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// Creates a token. It is returned only here: the database stores its digest.
///
/// # Errors
///
/// There are no random numbers, or the database failed.
pub async fn add_token(database: &dyn Database, label: &Name, scope: Scope) -> Result<String, AccountError> {
    let secret = format!("{TOKEN_PREFIX}{}", secret()?);
    let token = Token { label: label.to_string(), scope, since: now() };
    database.set_value(&format!("token:{}", sha256(secret.as_bytes())), None, Some(&written(&token))).await?;
    Ok(secret)
}

/// The scope of a token; none if it is invalid.
pub(crate) async fn token(database: &dyn Database, secret: &str) -> Result<Option<Token>, DatabaseError> {
    Ok(database.value(&format!("token:{}", sha256(secret.as_bytes()))).await?.as_deref().and_then(read))
}

/// All tokens.
///
/// # Errors
///
/// The database failed.
pub async fn tokens(database: &dyn Database) -> Result<Vec<Token>, DatabaseError> {
    Ok(database.values("token:").await?.iter().filter_map(|(_, value)| read(value)).collect())
}

/// Removes the tokens with a label. Returns how many.
///
/// # Errors
///
/// The database failed.
pub async fn remove_tokens(database: &dyn Database, label: &Name) -> Result<usize, DatabaseError> {
    let mut removed = 0;
    for (key, value) in database.values("token:").await? {
        if read::<Token>(&value).is_some_and(|token| token.label == label.as_str()) {
            database.set_value(&key, None, None).await?;
            removed += 1;
        }
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    async fn with_ana() -> (Arc<dyn Database>, Name, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let database = breme_wiki_database::open(folder.path().join("wiki.db").to_str().unwrap()).await.unwrap();
        let ana = Name::parse("Ana").unwrap();
        add_user(&*database, &ana, "first password", Scope::Write).await.unwrap();
        (database, ana, folder)
    }

    #[tokio::test]
    async fn a_session_begun_with_an_earlier_password_is_over() {
        let (database, ana, _folder) = with_ana().await;
        // The password is being verified while another is set.
        let verified = user(&*database, "Ana").await.unwrap().unwrap();
        let earlier = begin_session(&*database, "Ana", &verified).await.unwrap();
        assert!(session(&*database, &earlier).await.unwrap().is_some());
        assert!(set_password(&*database, &ana, "second password").await.unwrap());
        let late = begin_session(&*database, "Ana", &verified).await.unwrap();
        for secret in [&earlier, &late] {
            assert!(session(&*database, secret).await.unwrap().is_none());
        }
        let verified = user(&*database, "Ana").await.unwrap().unwrap();
        let current = begin_session(&*database, "Ana", &verified).await.unwrap();
        assert!(session(&*database, &current).await.unwrap().is_some());
        // One of an earlier version does not say which password it had.
        let value = format!("{{\"user\":\"Ana\",\"since\":{}}}", now());
        database.set_value(&format!("session:{}", sha256(b"x")), None, Some(&value)).await.unwrap();
        assert!(session(&*database, "x").await.unwrap().is_none());
    }

    #[tokio::test]
    async fn a_new_password_brings_no_removed_account_back() {
        let (database, ana, _folder) = with_ana().await;
        let stored = database.value("user:Ana").await.unwrap().unwrap();
        let verified = user(&*database, "Ana").await.unwrap().unwrap();
        begin_session(&*database, "Ana", &verified).await.unwrap();
        begin_session(&*database, "Bor", &verified).await.unwrap();
        assert!(remove_user(&*database, &ana).await.unwrap());
        let sessions = database.values("session:").await.unwrap();
        assert!(sessions.len() == 1 && sessions[0].1.contains("Bor"), "those of others remain: {sessions:?}");
        assert!(!replace_password(&*database, "user:Ana", &stored, "hash").await.unwrap());
        assert!(!set_password(&*database, &ana, "another password").await.unwrap());
        assert_eq!(database.value("user:Ana").await.unwrap(), None);
    }
}
