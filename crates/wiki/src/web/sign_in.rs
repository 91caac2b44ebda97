//! Sign-in and sign-out.

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::response::{IntoResponse, Response};
use breme_http::media_type;
use http::header::{CONTENT_TYPE, SET_COOKIE};
use http::{HeaderMap, StatusCode, Uri};

use super::addresses::see_other;
use super::guard::{session_cookie, set_cookie};
use super::problem::Problem;
use super::state::{HandlerResult, WikiState};
use super::submission::{query, read_form};
use super::validators::insert;
use super::visitor::Visitor;
use crate::accounts::{self, AccountError};
use crate::views;

const FORM_BYTES_MAX: usize = 16 * 1024;

/// Compared with the password of an unknown user, so that the time of the response does not reveal who has an account.
/// It is the hash of 256 random bits that nobody knows.
const NOBODY: &str = "$argon2id$v=19$m=19456,t=2,p=1$bm9ib2R5J3Mgc2FsdA$VtvrhRyYpHYc5KCHVuTWTfpDv5Ffcr9kKmXs1MsuHcQ";

/// `GET /login?next=PATH`.
pub(crate) async fn form(State(wiki): WikiState, Extension(visitor): Extension<Visitor>, uri: Uri) -> Response {
    let next = query(&uri).remove("next").unwrap_or_default();
    html(StatusCode::OK, views::login(&wiki.frame(&visitor), "", &next, false))
}

fn html(status: StatusCode, text: String) -> Response {
    (status, [(CONTENT_TYPE, media_type::HTML)], text).into_response()
}

/// `POST /login` with `user`, `password`, `next`.
pub(crate) async fn sign_in(
    State(wiki): WikiState,
    Extension(visitor): Extension<Visitor>,
    body: Body,
) -> HandlerResult {
    let mut form = read_form(body, FORM_BYTES_MAX).await?;
    let mut take = |key: &str| form.remove(key).unwrap_or_default();
    let (user, password, next) = (take("user"), take("password"), take("next"));
    let user = user.trim().to_owned();
    let account = accounts::user(&*wiki.database, &user).await?;
    let hash = account.as_ref().map_or(NOBODY, |account| &account.password).to_owned();
    let is_right = {
        let _permit = wiki.hashing.acquire().await;
        tokio::task::spawn_blocking(move || accounts::is_password(&password, &hash)).await.unwrap_or(false)
    };
    let Some(account) = account.filter(|_| is_right) else {
        return Ok(html(StatusCode::UNAUTHORIZED, views::login(&wiki.frame(&visitor), &user, &next, true)));
    };
    let secret = accounts::begin_session(&*wiki.database, &user, &account).await;
    let secret = secret.map_err(|error| match error {
        AccountError::Database(error) => error.into(),
        error => Problem::new(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}.")),
    })?;
    let mut response = see_other(own_path(&next));
    insert(response.headers_mut(), SET_COOKIE, &set_cookie(&wiki.settings, Some(&secret)));
    Ok(response)
}

/// A path of this site; anything else could lead a user who has just signed in to another site.
fn own_path(next: &str) -> &str {
    let is_own = next.starts_with('/')
        && !next.starts_with("//")
        && next.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if is_own { next } else { "/" }
}

/// `POST /logout`.
pub(crate) async fn sign_out(State(wiki): WikiState, headers: HeaderMap) -> HandlerResult {
    if let Some(secret) = session_cookie(&headers, &wiki.settings) {
        accounts::end_session(&*wiki.database, secret).await?;
    }
    let mut response = see_other("/");
    insert(response.headers_mut(), SET_COOKIE, &set_cookie(&wiki.settings, None));
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_paths_come_next() {
        assert_eq!(own_path("/wiki/A?b=c"), "/wiki/A?b=c");
        for foreign in ["", "http://evil", "//evil", "/\\evil", "/\t/evil", "evil"] {
            assert_eq!(own_path(foreign), "/", "{foreign}");
        }
    }

    #[test]
    fn nobodys_hash_is_a_hash() {
        assert!(argon2::password_hash::PasswordHash::new(NOBODY).is_ok());
    }
}
