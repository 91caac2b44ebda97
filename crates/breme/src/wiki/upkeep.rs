//! Maintenance of a wiki, also while it runs.

use std::io::{BufRead, Read};
use std::process::ExitCode;
use std::sync::Arc;

use breme_base::{error_line, output_line, plural};
use breme_command::failure::{AGAINST, Failure};
use breme_wiki::accounts::{self, AccountError};
use breme_wiki::calendar::{now, rfc3339};
use breme_wiki::folder::{Copied, export, import};
use breme_wiki_database::name::Name;
use breme_wiki_database::{
    Database, DatabaseError, backup, open, open_for_upkeep, open_for_upkeep_of_existing, open_to_read, remaining,
};

use super::arguments::{DatabaseArgs, TokenAction, UpkeepAction, UserAction};

const PASSWORD_LINE_BYTES_MAX: u64 = 4096;

pub(super) async fn carry_out(action: &UpkeepAction) -> Result<ExitCode, Failure> {
    match action {
        UpkeepAction::Backup { database, to } => {
            backup(&database.database, to).await.map_err(Failure::run)?;
            output_line!("copied {} to {}", database.database, to.display());
        }
        UpkeepAction::Verify { database } => {
            let faults =
                open_to_read(&database.database).await.map_err(Failure::run)?.verify().await.map_err(Failure::run)?;
            if !faults.is_empty() {
                faults.iter().for_each(|fault| output_line!("{fault}"));
                return Ok(ExitCode::from(AGAINST));
            }
            output_line!("{}: no faults", database.database);
        }
        UpkeepAction::Export { database, folder } => {
            let database = open_to_read(&database.database).await.map_err(Failure::run)?;
            let mut unreadable = 0;
            let skip = |name: &Name, error: &DatabaseError| {
                error_line!("{name} is not exported: {error}");
                unreadable += 1;
            };
            let copied = export(&*database, folder, skip).await.map_err(Failure::run)?;
            report("exported", copied);
            if unreadable > 0 {
                let pages = plural(unreadable, "page");
                return Err(Failure::run(format!("{pages} could not be read; restore them from a backup")));
            }
        }
        UpkeepAction::Import { database, folder } => {
            let database = open(&database.database).await.map_err(Failure::run)?;
            let copied = import(&*database, folder).await.map_err(Failure::run)?;
            report("imported", copied);
        }
        UpkeepAction::Erase { database, author: Some(author), .. } => erase_author(database, author).await?,
        UpkeepAction::Erase { database, targets, author: None } => {
            let others = existing(database).await?.erase(targets, now()).await.map_err(Failure::run)?;
            targets.iter().for_each(|target| output_line!("erased {target}"));
            if !others.is_empty() {
                return Err(Failure::run(remaining(&others)));
            }
        }
        UpkeepAction::User(action) => user(action).await?,
        UpkeepAction::Token(action) => token(action).await?,
    }
    Ok(ExitCode::SUCCESS)
}

fn report(done: &str, Copied { pages, attachments }: Copied) {
    output_line!("{done} {} and {}", plural(pages, "page"), plural(attachments, "attachment"));
}

fn name(text: &str) -> Result<Name, Failure> {
    Name::parse(text).map_err(|error| Failure::usage(format!("{text:?}: {error}")))
}

fn account_failure(error: AccountError) -> Failure {
    match error {
        AccountError::Password => Failure::usage(error),
        other => Failure::run(other),
    }
}

/// The database of an existing wiki, to change values or to erase: a mistyped name creates no file. Only the first
/// account may come before the wiki.
async fn existing(database: &DatabaseArgs) -> Result<Arc<dyn Database>, Failure> {
    open_for_upkeep_of_existing(&database.database).await.map_err(Failure::run)
}

async fn erase_author(database: &DatabaseArgs, author: &str) -> Result<(), Failure> {
    let database = existing(database).await?;
    let has_account = accounts::users(&*database).await.map_err(Failure::run)?.iter().any(|(name, _)| name == author);
    let has_token = accounts::tokens(&*database).await.map_err(Failure::run)?.iter().any(|token| token.label == author);
    for (kind, exists) in [("user", has_account), ("token", has_token)] {
        if exists {
            let reason = format!("{author} can still make changes: first run `breme wiki {kind} remove {author:?}`");
            return Err(Failure::run(reason));
        }
    }
    let count = database.erase_author(author).await.map_err(Failure::run)?;
    output_line!("erased the author {author} of {}", plural(count, "change"));
    Ok(())
}

async fn user(action: &UserAction) -> Result<(), Failure> {
    match action {
        UserAction::Add { name: text, scope, password_stdin, database } => {
            // The database is locked until it is closed: a person who types the password may take a while.
            let (name, (password, is_new)) = (name(text)?, password(*password_stdin)?);
            let database = open_for_upkeep(&database.database).await.map_err(Failure::run)?;
            accounts::add_user(&*database, &name, &password, (*scope).into()).await.map_err(account_failure)?;
            show(&format!("added the account {name}"), &password, is_new);
        }
        UserAction::Password { name: text, password_stdin, database } => {
            let (name, (password, is_new)) = (name(text)?, password(*password_stdin)?);
            let database = existing(database).await?;
            if !accounts::set_password(&*database, &name, &password).await.map_err(account_failure)? {
                return Err(Failure::run(format!(
                    "there is no account {name}; `breme wiki user list` lists the accounts"
                )));
            }
            show(&format!("set the password of {name}"), &password, is_new);
        }
        UserAction::Remove { name: text, database } => {
            let (name, database) = (name(text)?, existing(database).await?);
            if !accounts::remove_user(&*database, &name).await.map_err(Failure::run)? {
                return Err(Failure::run(format!(
                    "there is no account {name}; `breme wiki user list` lists the accounts"
                )));
            }
            output_line!("removed the account {name}");
        }
        UserAction::List { database } => {
            let database = open_to_read(&database.database).await.map_err(Failure::run)?;
            for (name, user) in accounts::users(&*database).await.map_err(Failure::run)? {
                output_line!("{name}\t{}\tpassword set {}", word(user.scope), rfc3339(user.since));
            }
        }
    }
    Ok(())
}

async fn token(action: &TokenAction) -> Result<(), Failure> {
    match action {
        TokenAction::Add { label, scope, database } => {
            let (label, database) = (name(label)?, existing(database).await?);
            let token = accounts::add_token(&*database, &label, (*scope).into()).await.map_err(account_failure)?;
            output_line!("{token}");
        }
        TokenAction::Remove { label, database } => {
            let (label, database) = (name(label)?, existing(database).await?);
            match accounts::remove_tokens(&*database, &label).await.map_err(Failure::run)? {
                0 => {
                    return Err(Failure::run(format!(
                        "there is no token {label}; `breme wiki token list` lists the tokens"
                    )));
                }
                count => output_line!("removed {}", plural(count as u64, "token")),
            }
        }
        TokenAction::List { database } => {
            let database = open_to_read(&database.database).await.map_err(Failure::run)?;
            for token in accounts::tokens(&*database).await.map_err(Failure::run)? {
                output_line!("{}\t{}\tadded {}", token.label, word(token.scope), rfc3339(token.since));
            }
        }
    }
    Ok(())
}

fn word(scope: accounts::Scope) -> &'static str {
    match scope {
        accounts::Scope::Read => "read",
        accounts::Scope::Write => "write",
    }
}

/// A password from standard input, or a new one.
fn password(from_stdin: bool) -> Result<(String, bool), Failure> {
    if !from_stdin {
        let secret = accounts::secret().map_err(account_failure)?;
        // 96 bits, in groups that can be read aloud.
        let groups: Vec<&str> = (0..6).map(|index| &secret[index * 4..index * 4 + 4]).collect();
        return Ok((groups.join("-"), true));
    }
    let mut line = String::new();
    let read = std::io::stdin().lock().take(PASSWORD_LINE_BYTES_MAX).read_line(&mut line);
    read.map_err(|error| Failure::run(format!("cannot read the password from standard input: {error}")))?;
    Ok((line.trim_end_matches(['\n', '\r']).to_owned(), false))
}

fn show(done: &str, password: &str, is_new: bool) {
    output_line!("{done}");
    if is_new {
        output_line!("password: {password}");
    }
}
