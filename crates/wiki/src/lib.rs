//! The wiki of `breme wiki`: an axum application on the pages of [`breme_wiki_database`].
//!
//! | module | content |
//! |---|---|
//! | [`web`], `views` | the application: requests → responses; HTML |
//! | `render`, `merge`, `fields`, `paths` | Markdown → safe HTML; differences and merges; fields as text; URLs |
//! | [`accounts`] | accounts, sessions, tokens |
//! | [`purges`] | purges of the caches in front |
//! | [`folder`] | a wiki as a folder of Markdown files |
//! | [`lab`] | pages with random text, for measurements |
//! | [`settings`] | the operator's settings |
//! | [`calendar`] | instants as dates |

// `eprintln!` panics if the log cannot be written: `breme_base::error_line!` does not.
#![cfg_attr(not(test), warn(clippy::print_stderr))]

pub mod accounts;
pub mod calendar;
mod fields;
pub mod folder;
pub mod lab;
mod merge;
mod paths;
pub mod purges;
mod render;
pub mod settings;
mod views;
pub mod web;
