//! An acknowledged write survives a crash of the wiki's process.
//!
//! The test starts itself as another process, which writes from several tasks and prints each acknowledged revision. It
//! is killed during the writes; then all printed revisions must exist.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use breme_wiki_database::{Database, open};

use crate::write::{name, save};

/// The variable that passes the database to the writing process.
const TARGET: &str = "BREME_WIKI_CRASH_DATABASE";

const TASKS: u64 = 64;
const ACKNOWLEDGED: usize = 10_000;

/// The text of a revision, which makes a mixture of two recognisable.
fn text(task: u64, revision: u64) -> String {
    format!(
        "task {task} revision {revision} [[P{}]] {}",
        (task + revision) % TASKS,
        "x".repeat(revision as usize % 3000)
    )
}

/// The process that writes until it is killed; without the variable, it does nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn process_that_is_killed() {
    let Ok(target) = std::env::var(TARGET) else { return };
    let database = open(&target).await.unwrap();
    for task in 0..TASKS {
        let database = Arc::clone(&database);
        tokio::spawn(async move {
            for revision in 1.. {
                let committed = database.write(save(&format!("P{task}"), &text(task, revision))).await.unwrap();
                assert_eq!(committed.revision, revision);
                // One system call for each line: what is printed was acknowledged before.
                std::io::stdout().lock().write_all(format!("acknowledged {task} {revision}\n").as_bytes()).unwrap();
            }
        });
    }
    std::future::pending::<()>().await;
}

/// Kills the process when dropped, also if the test fails.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Kills a process that writes to the database after [`ACKNOWLEDGED`] writes and some more, then checks the database.
pub(crate) async fn acknowledged_writes_survive(target: &str) {
    let extra = usize::from(rand_byte()) * 4;
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["crash::process_that_is_killed", "--exact", "--nocapture"])
        .env(TARGET, target)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let child = Killed(child);
    let mut acknowledged: HashMap<u64, u64> = HashMap::new();
    let mut count = 0;
    let mut killed = Some(child);
    for line in output.lines() {
        // The last line may be truncated.
        let Ok(line) = line else { break };
        let mut words = line.split(' ').skip_while(|word| *word != "acknowledged").skip(1).map(str::parse);
        let (Some(Ok(task)), Some(Ok(revision))) = (words.next(), words.next()) else { continue };
        let last = acknowledged.entry(task).or_default();
        *last = revision.max(*last);
        count += 1;
        if count == ACKNOWLEDGED + extra {
            killed = None;
        }
    }
    assert!(killed.is_none(), "the process ended by itself after {count} writes");
    let database = open(target).await.unwrap();
    for (task, last) in acknowledged {
        check(&database, task, last).await;
    }
    assert_eq!(database.verify().await.unwrap(), Vec::<String>::new());
}

async fn check(database: &Arc<dyn Database>, task: u64, last: u64) {
    let page = name(&format!("P{task}"));
    for revision in 1..=last {
        let found = database.revision(&page, revision).await.unwrap();
        let found = found.unwrap_or_else(|| panic!("{page}: acknowledged revision {revision} of {last} is missing"));
        assert_eq!(found.content.unwrap().text, text(task, revision));
    }
}

/// From the clock: the moment of the kill need not be reproducible.
fn rand_byte() -> u8 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    now.subsec_micros() as u8
}

#[tokio::test]
async fn acknowledged_writes_survive_with_sqlite() {
    let fixture = crate::sqlite::Fixture::new();
    acknowledged_writes_survive(fixture.path().to_str().unwrap()).await;
}
