//! The wiki of `breme wiki`: an axum application on a database of pages.
//!
//! | module | content |
//! |---|---|
//! | [`name`] | names of pages: normalised, safe in paths and file names |
//! | [`page`] | pages, revisions, changes: the types of the database |
//! | [`database`] | the operations common to all databases |
//! | [`render`], [`merge`], [`fields`] | Markdown → safe HTML; differences and merges; fields as text |
//! | [`web`], `views` | the application: requests → responses; HTML |
//! | [`accounts`] | accounts, sessions, tokens |
//! | [`purges`] | purges of the caches in front |
//! | [`folder`] | a wiki as a folder of Markdown files |
//! | [`lab`] | pages with random text, for measurements |
//! | `digest` | bytes and digests as text |
//! | [`settings`] | the operator's settings |

pub mod accounts;
pub mod calendar;
pub mod database;
mod digest;
pub mod fields;
pub mod folder;
pub mod lab;
pub mod merge;
pub mod name;
pub mod page;
pub mod paths;
pub mod purges;
pub mod render;
pub mod settings;
mod views;
pub mod web;
