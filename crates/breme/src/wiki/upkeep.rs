//! Maintenance of a wiki, also while it runs.

use std::io::{BufRead, Read};
use std::process::ExitCode;

use breme_command::failure::{AGAINST, Failure};
use breme_wiki::accounts::{self, AccountError};
use breme_wiki::calendar::rfc3339;
use breme_wiki::folder::{Copied, export, import};
use breme_wiki_database::name::Name;
use breme_wiki_database::{backup, open, open_for_values, open_to_read};

use super::arguments::{TokenAction, UpkeepAction, UserAction};

const PASSWORD_LINE_BYTES_MAX: u64 = 4096;

pub(super) async fn carry_out(action: &UpkeepAction) -> Result<ExitCode, Failure> {
    match action {
        UpkeepAction::Backup { database, to } => {
            backup(&database.database, to).await.map_err(Failure::run)?;
            println!("copied {} to {}", database.database, to.display());
        }
        UpkeepAction::Verify { database } => {
            let faults =
                open_to_read(&database.database).await.map_err(Failure::run)?.verify().await.map_err(Failure::run)?;
            if !faults.is_empty() {
                faults.iter().for_each(|fault| println!("{fault}"));
                return Ok(ExitCode::from(AGAINST));
            }
            println!("{}: no faults", database.database);
        }
        UpkeepAction::Export { database, folder } => {
            let database = open_to_read(&database.database).await.map_err(Failure::run)?;
            let copied = export(&*database, folder).await.map_err(Failure::run)?;
            report("exported", copied);
        }
        UpkeepAction::Import { database, folder } => {
            let database = open(&database.database).await.map_err(Failure::run)?;
            let copied = import(&*database, folder).await.map_err(Failure::run)?;
            report("imported", copied);
        }
        UpkeepAction::User(action) => user(action).await?,
        UpkeepAction::Token(action) => token(action).await?,
    }
    Ok(ExitCode::SUCCESS)
}

fn report(done: &str, Copied { pages, attachments }: Copied) {
    println!("{done} {pages} pages and {attachments} attachments");
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

async fn user(action: &UserAction) -> Result<(), Failure> {
    match action {
        UserAction::Add { name: text, scope, password_stdin, database } => {
            let (name, database) = (name(text)?, open_for_values(&database.database).await.map_err(Failure::run)?);
            let (password, is_new) = password(*password_stdin)?;
            accounts::add_user(&*database, &name, &password, (*scope).into()).await.map_err(account_failure)?;
            show(&format!("added the account {name}"), &password, is_new);
        }
        UserAction::Password { name: text, password_stdin, database } => {
            let (name, database) = (name(text)?, open_for_values(&database.database).await.map_err(Failure::run)?);
            let (password, is_new) = password(*password_stdin)?;
            if !accounts::set_password(&*database, &name, &password).await.map_err(account_failure)? {
                return Err(Failure::run(format!(
                    "there is no account {name}; `breme wiki user list` lists the accounts"
                )));
            }
            show(&format!("set the password of {name}"), &password, is_new);
        }
        UserAction::Remove { name: text, database } => {
            let (name, database) = (name(text)?, open_for_values(&database.database).await.map_err(Failure::run)?);
            if !accounts::remove_user(&*database, &name).await.map_err(Failure::run)? {
                return Err(Failure::run(format!(
                    "there is no account {name}; `breme wiki user list` lists the accounts"
                )));
            }
            println!("removed the account {name}");
        }
        UserAction::List { database } => {
            let database = open_to_read(&database.database).await.map_err(Failure::run)?;
            for (name, user) in accounts::users(&*database).await.map_err(Failure::run)? {
                println!("{name}\t{}\tpassword set {}", word(user.scope), rfc3339(user.since));
            }
        }
    }
    Ok(())
}

async fn token(action: &TokenAction) -> Result<(), Failure> {
    match action {
        TokenAction::Add { label, scope, database } => {
            let (label, database) = (name(label)?, open_for_values(&database.database).await.map_err(Failure::run)?);
            let token = accounts::add_token(&*database, &label, (*scope).into()).await.map_err(account_failure)?;
            println!("{token}");
        }
        TokenAction::Remove { label, database } => {
            let (label, database) = (name(label)?, open_for_values(&database.database).await.map_err(Failure::run)?);
            match accounts::remove_tokens(&*database, &label).await.map_err(Failure::run)? {
                0 => {
                    return Err(Failure::run(format!(
                        "there is no token {label}; `breme wiki token list` lists the tokens"
                    )));
                }
                count => println!("removed {count} tokens"),
            }
        }
        TokenAction::List { database } => {
            let database = open_to_read(&database.database).await.map_err(Failure::run)?;
            for token in accounts::tokens(&*database).await.map_err(Failure::run)? {
                println!("{}\t{}\tadded {}", token.label, word(token.scope), rfc3339(token.since));
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
    println!("{done}");
    if is_new {
        println!("password: {password}");
    }
}
