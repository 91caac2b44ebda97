//! Sign-in and error pages.

use maud::html;

use super::frame::{Frame, document, plain_heading};

pub(crate) fn login(frame: &Frame<'_>, user: &str, next: &str, has_failed: bool) -> String {
    let main = html! {
        (plain_heading("Sign in"))
        @if has_failed {
            p.notice.error role="alert" { "The name or the password is wrong." }
        }
        form.narrow method="post" action="/login" {
            input type="hidden" name="next" value=(next);
            label for="user" { "Name" }
            input #user type="text" name="user" required maxlength="240" autocomplete="username" value=(user);
            label for="password" { "Password" }
            input #password type="password" name="password" required maxlength="1024" autocomplete="current-password";
            p.actions { button.primary { "Sign in" } }
        }
    };
    document(frame, "Sign in", &main)
}

pub(crate) fn problem(frame: &Frame<'_>, title: &str, detail: &str) -> String {
    let main = html! {
        (plain_heading(title))
        p.notice.error { (detail) }
        p { a href="/" { "Start page" } }
    };
    document(frame, title, &main)
}
