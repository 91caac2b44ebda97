//! What notes have in common.

use breme_base::grouped;

/// Faults that notes name.
pub(super) const NAMED_MAX: usize = 5;

/// `1 body is`, `2 bodies are`: for nouns with their verb, and plurals that are not formed with an s.
pub(super) fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{} {}", grouped(count as u64), if count == 1 { one } else { many })
}

/// The first ones, and the number of the others.
pub(super) fn shortened(mut faults: Vec<String>, one: &str, many: &str) -> Vec<String> {
    let further = faults.len().saturating_sub(NAMED_MAX);
    faults.truncate(NAMED_MAX);
    faults.extend((further > 0).then(|| {
        let subject = counted(further, &format!("further {one} is"), &format!("further {many} are"));
        format!("{subject} left out for such reasons")
    }));
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_agree_with_their_number() {
        assert_eq!(counted(1, "body is", "bodies are"), "1 body is");
        assert_eq!(counted(1_200, "body is", "bodies are"), "1,200 bodies are");
        let faults = |count| shortened(vec![String::from("x"); count], "command", "commands");
        assert_eq!(faults(5).len(), 5);
        assert_eq!(faults(6)[5], "1 further command is left out for such reasons");
        assert_eq!(faults(7)[5], "2 further commands are left out for such reasons");
    }
}
