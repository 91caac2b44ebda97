//! Writes a report from artificial records: `cargo run -p breme-report --example sample`, then open
//! `target/sample-report.html`.
//!
//! With the argument `large`: a thousand trials, and an hour of samples of twelve processes.

use std::path::Path;
use std::time::Instant;

use breme_base::terminal::Style;

#[path = "../tests/fixture/mod.rs"]
mod fixture;

#[expect(clippy::disallowed_methods, reason = "an example has a clock")]
fn main() -> std::io::Result<()> {
    let is_large = std::env::args().nth(1).is_some_and(|argument| argument == "large");
    let fixture = if is_large { fixture::large() } else { fixture::study() };
    let run = fixture.run();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    std::fs::create_dir_all(&folder)?;
    let started = Instant::now();
    let page = breme_report::html(&run);
    let took = started.elapsed();
    let path = folder.join(if is_large { "sample-report-large.html" } else { "sample-report.html" });
    std::fs::write(&path, &page)?;
    println!("{}: {} bytes in {took:?}\n", path.display(), page.len());
    if !is_large {
        println!("{}", breme_report::text(&run, Style { colours: true, width: Some(110) }));
        std::fs::write(folder.join("sample-report.md"), breme_report::markdown(&run))?;
    }
    Ok(())
}
