//! The wiki behind `breme wiki`: an axum application over a database of pages.
//!
//! | module | is |
//! |---|---|
//! | [`name`] | names of pages: normalised, safe in paths and file names |
//! | [`page`] | pages, revisions, changes: what the database keeps and returns |
//! | [`database`] | the operations that every database offers |

pub mod database;
pub mod name;
pub mod page;
