//! The wiki of `breme wiki`: an axum application on the pages of [`breme_wiki_database`].
//!
//! | module | content |
//! |---|---|
//! | [`render`], [`merge`], [`fields`] | Markdown → safe HTML; differences and merges; fields as text |
//! | [`web`], `views` | the application: requests → responses; HTML |
//! | [`accounts`] | accounts, sessions, tokens |
//! | [`purges`] | purges of the caches in front |
//! | [`folder`] | a wiki as a folder of Markdown files |
//! | [`lab`] | pages with random text, for measurements |
//! | [`settings`] | the operator's settings |

pub mod accounts;
pub mod calendar;
pub mod fields;
pub mod folder;
pub mod lab;
pub mod merge;
pub mod paths;
pub mod purges;
pub mod render;
pub mod settings;
mod views;
pub mod web;
