//! `breme wiki`: converts flags to the settings of a wiki, and runs it on hyper and tokio.
//!
//! | module | content |
//! |---|---|
//! | `arguments` | the flags |
//! | `settings` | converts the flags; rejects unsafe combinations |
//! | `upkeep` | `backup`, `verify`, `export`, `import`, `erase`, `user`, `token` |
//! | `metrics` | metrics at `--admin` |

mod arguments;
mod metrics;
mod settings;
mod upkeep;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use arguments::{ROLE, ServeArgs};
pub use arguments::{WikiArgs, command};
use breme_admin::{Admin, AdminListener, ProcessMetrics, Readiness, application_registry};
use breme_axum_server::serve;
use breme_command::failure::{Failure, exit};
use breme_command::server::announce;
use breme_command::server::application::{ending, listen, runtime};
use breme_driver::Clock;
use breme_wiki::purges::Edges;
use breme_wiki::web::{Application, Wiki};
use breme_wiki::{accounts, lab};
use breme_wiki_database::{Database, open};
use metrics::WikiMetrics;
use tokio::runtime::Runtime;

/// Interval at which expired sessions are removed.
const CLEAN_EVERY: Duration = Duration::from_secs(3600);
/// Interval at which the database is checked, and whether there are accounts now.
const WATCH_EVERY: Duration = Duration::from_secs(1);
/// Time limit of that check.
const WATCH_TIMEOUT: Duration = Duration::from_secs(2);

#[expect(clippy::needless_pass_by_value, reason = "the command line is ours for good")]
pub fn run(args: WikiArgs) -> ExitCode {
    exit(ROLE, carry_out(&args))
}

fn carry_out(args: &WikiArgs) -> Result<ExitCode, Failure> {
    if let Some(action) = &args.action {
        return runtime(ROLE, None)?.block_on(upkeep::carry_out(action));
    }
    if let Some((_, args)) = args.serve.configuration.in_force::<ServeArgs>(&command())? {
        run_server(&args, &runtime(ROLE, args.threads)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn run_server(args: &ServeArgs, runtime: &Runtime) -> Result<(), Failure> {
    let process = ProcessMetrics::starting_now();
    let places = args.places()?;
    let database: Arc<dyn Database> = runtime.block_on(open(&args.database.database)).map_err(Failure::run)?;
    if let Some(count) = args.lab_pages {
        runtime.block_on(lab::fill(&*database, count, &args.lab_page_bytes)).map_err(Failure::run)?;
    }
    let has_accounts = runtime.block_on(accounts::exist(&*database)).map_err(Failure::run)?;
    let settings = settings::settings(args, &places, has_accounts)?;
    if let Some(notice) = settings::notice(&settings) {
        breme_base::error_line!("breme wiki: {notice}");
    }
    let limits = args.limits()?;

    let admin = args.admin()?.map(AdminListener::bind).transpose()?;
    let _context = runtime.enter();
    let (listeners, bound) = listen(places, None)?;
    let edges = Edges::new(&settings);
    runtime.block_on(edges.run(&database)).map_err(Failure::run)?;
    runtime.spawn(clean(Arc::clone(&database)));
    let wiki = Arc::new(Wiki::new(Arc::clone(&database), settings, edges));
    runtime.block_on(wiki.purge_earlier_responses()).map_err(Failure::run)?;
    let readiness = Readiness::default();
    runtime.spawn(watch(database, Arc::clone(&wiki), readiness.clone()));

    // Before the addresses are printed: a signal after that is handled.
    let end = ending(readiness.clone())?;
    let registry = application_registry(ROLE, process, [Box::new(WikiMetrics(Arc::clone(&wiki)))]);
    let admin = admin.map(|admin| admin.start(Clock::start(), Vec::new(), registry, readiness, None)).transpose()?;
    announce(admin.as_ref(), &bound);

    let end = async {
        end.await;
        tokio::time::Instant::now() + args.drain_timeout
    };
    let is_complete = runtime.block_on(serve(listeners, Application::new(wiki), limits, end));
    admin.into_iter().for_each(Admin::end);
    if !is_complete {
        breme_base::error_line!("breme wiki: some requests were aborted after --drain-timeout");
    }
    Ok(())
}

async fn clean(database: Arc<dyn Database>) {
    loop {
        if let Err(error) = accounts::remove_expired_sessions(&*database).await {
            breme_base::error_line!("breme wiki: {error}");
        }
        tokio::time::sleep(CLEAN_EVERY).await;
    }
}

/// Watches what changes while the wiki runs: the database is lost or back, the first account is added.
async fn watch(database: Arc<dyn Database>, wiki: Arc<Wiki>, readiness: Readiness) {
    let mut is_lost = false;
    loop {
        let lack = match tokio::time::timeout(WATCH_TIMEOUT, database.ping()).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some(format!("the database does not respond within {WATCH_TIMEOUT:?}")),
        };
        match &lack {
            Some(reason) if !is_lost => {
                breme_base::error_line!("breme wiki: {reason}; /ready returns 503 until it is back");
            }
            None if is_lost => breme_base::error_line!("breme wiki: the database is back"),
            _ => {}
        }
        is_lost = lack.is_some();
        readiness.set_lack(lack);
        // A failure is reported above, or at the next request.
        if !is_lost && wiki.look_for_accounts().await.unwrap_or(false) && wiki.is_for_members() {
            breme_base::error_line!("breme wiki: accounts exist now: only accounts and API tokens may change pages");
        }
        tokio::time::sleep(WATCH_EVERY).await;
    }
}
