//! Lines for operators that may be lost, but never end a thread.

/// Writes a line to standard error. Where `eprintln!` panics, the line is lost: a server outlives the reader of its log
/// and a full disk.
#[macro_export]
macro_rules! error_line {
    ($($part:tt)*) => {{
        use ::std::io::Write as _;
        let _ = ::std::writeln!(::std::io::stderr().lock(), $($part)*);
    }};
}

/// The same for standard output of commands that keep running.
#[macro_export]
macro_rules! output_line {
    ($($part:tt)*) => {{
        use ::std::io::Write as _;
        let _ = ::std::writeln!(::std::io::stdout().lock(), $($part)*);
    }};
}
