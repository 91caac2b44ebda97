//! The wiki behind `breme wiki`: an axum application over a database of pages.
//!
//! | module | is |
//! |---|---|
//! | [`name`] | names of pages: normalised, safe in paths and file names |
//! | [`page`] | pages, revisions, changes: what the database keeps and returns |
//! | [`database`] | the operations that every database offers |
//! | [`render`], [`merge`], [`fields`] | Markdown → safe HTML; differences and merges; fields as text |
//! | [`web`], `views` | the application: requests → responses; HTML |
//! | [`accounts`] | accounts, sessions, tokens |
//! | [`purging`] | purges at the caches in front |
//! | [`folder`] | a wiki as a folder of Markdown files |
//! | [`lab`] | pages with random text, for measurements |
//! | `digest` | bytes and digests as text |
//! | [`settings`] | what an operator chooses |

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
