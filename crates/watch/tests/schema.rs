//! The published schema of the watch file matches the code.

use breme_testkit::check_published;
use breme_watch::File;

#[test]
fn the_published_schema_of_watch_files_is_that_of_the_code() {
    let schema = serde_json::to_string_pretty(&File::schema());
    check_published("watch.schema.json", &schema.unwrap_or_default(), "breme-watch", "schema");
}
