//! The arguments of this process, as other processes see them.

use std::io;

/// Overwrites `secret` with stars in the arguments that end with it, since other users can read them in
/// `/proc/PID/cmdline`. Returns whether none is left there.
pub fn conceal_argument(secret: &str) -> bool {
    #[cfg(target_os = "linux")]
    {
        overwrite(secret).is_ok()
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = secret;
        false
    }
}

/// Writes through `/proc/self/mem`, since the arguments belong to the runtime, which only reads them.
#[cfg(target_os = "linux")]
fn overwrite(secret: &str) -> io::Result<()> {
    use std::os::unix::fs::FileExt;

    if secret.is_empty() {
        return Ok(());
    }
    let start = start_of_arguments()?;
    let memory = std::fs::OpenOptions::new().write(true).open("/proc/self/mem")?;
    let arguments = std::fs::read("/proc/self/cmdline")?;
    let mut offset = 0;
    for argument in arguments.split(|&byte| byte == 0) {
        if argument.ends_with(secret.as_bytes()) {
            let place = offset + argument.len() - secret.len();
            memory.write_all_at(&vec![b'*'; secret.len()], start + place as u64)?;
        }
        offset += argument.len() + 1;
    }
    Ok(())
}

/// The field `arg_start` of `/proc/self/stat` (proc(5)), and the first field after the name of the program.
#[cfg(target_os = "linux")]
const ARG_START_FIELD: usize = 48;
#[cfg(target_os = "linux")]
const FIELD_AFTER_NAME: usize = 3;

/// The address of the first argument.
#[cfg(target_os = "linux")]
fn start_of_arguments() -> io::Result<u64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // The second field is the name of the program, which may hold spaces; the last parenthesis ends it.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let start = fields.split_whitespace().nth(ARG_START_FIELD - FIELD_AFTER_NAME).and_then(|field| field.parse().ok());
    start.ok_or_else(|| io::Error::other("/proc/self/stat has no start of the arguments"))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// The test runner's own arguments; nothing there is secret.
    #[test]
    fn an_argument_is_overwritten() {
        let before = std::fs::read("/proc/self/cmdline").unwrap();
        let program = before.split(|&byte| byte == 0).next().unwrap();
        let secret = std::str::from_utf8(&program[program.len() - 4..]).unwrap();
        assert!(conceal_argument(secret));
        let after = std::fs::read("/proc/self/cmdline").unwrap();
        let stars = after.split(|&byte| byte == 0).next().unwrap();
        assert!(stars.ends_with(b"****") && stars[..stars.len() - 4] == program[..program.len() - 4]);
        assert_eq!(after.len(), before.len());
        assert!(conceal_argument("no argument ends with this"));
    }
}
