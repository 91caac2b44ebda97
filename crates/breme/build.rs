//! Compresses the schemas that `breme schema` prints, for the size of the binary.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;

use flate2::Compression;
use flate2::write::GzEncoder;

const SCHEMAS: &str = "../../schemas";

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed={SCHEMAS}");
    let folder = PathBuf::from(std::env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?);
    for schema in fs::read_dir(SCHEMAS)? {
        let schema = schema?;
        let compressed = folder.join(schema.file_name()).with_added_extension("gz");
        let mut encoder = GzEncoder::new(File::create(compressed)?, Compression::best());
        encoder.write_all(&fs::read(schema.path())?)?;
        encoder.finish()?;
    }
    Ok(())
}
