//! Pages as HTML. Each view returns a whole document.
//!
//! | module | shows |
//! |---|---|
//! | `pages` | a page, an old revision, a page that does not exist |
//! | `edit_forms` | forms that change a page, conflicts |
//! | `lists` | history, differences, lists, searches, attachments |
//! | `account` | sign-in, errors |
//! | `frame` | what all documents share |

mod account;
mod edit_forms;
mod frame;
mod lists;
mod pages;

pub(crate) use account::{login, problem};
use breme_wiki_database::name::Name;
use breme_wiki_database::page::{Content, Page};
pub(crate) use edit_forms::{conflict, delete, delete_file, edit, new_page, rename};
pub(crate) use frame::{Frame, greet};
pub(crate) use lists::{
    Compared, Search, all_pages, author, backlinks, changes_json, difference, file_history, files, history, is_erased,
    kind, recent, search,
};
pub(crate) use pages::{missing, page, revision};

use crate::render::render;
use crate::settings::{Settings, Writers};

/// A page with every possible element: a change in it is a change in every page.
pub(crate) fn sample(settings: &Settings, has_accounts: bool) -> String {
    let Ok(name) = Name::parse("Sample") else { return String::new() };
    let text = "# A\n\n[[B]]\n\n# C\n\n# D\n\n| a |\n|---|\n\n```\na\n```\n";
    let fields = [("a".to_owned(), "b".into())].into_iter().collect();
    let content = Content { text: text.to_owned(), fields, redirect: None };
    let page = Page { name: name.clone(), revision: 1, links_version: 0, modified: 0, content, red_links: Vec::new() };
    let frame =
        Frame { title: &settings.title, user: None, has_accounts, is_writable: settings.writers != Writers::Nobody };
    pages::page(&frame, &page, &render(text, &name, &[]))
}
