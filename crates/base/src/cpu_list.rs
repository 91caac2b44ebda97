//! Lists of CPUs, as flags and experiments write them.

/// The highest CPU number for which Linux can be built.
const CPU_NUMBER_MAX: usize = 8191;

/// The CPUs of a list of numbers and ranges, such as `0,2-3`, in its order; none if it is no such list.
#[must_use]
pub fn parse_cpu_list(text: &str) -> Option<Vec<usize>> {
    let number = |text: &str| text.trim().parse::<usize>().ok().filter(|&cpu| cpu <= CPU_NUMBER_MAX);
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        if last < first {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_numbers_and_ranges() {
        for text in ["3,0-1", "3, 0 - 1"] {
            assert_eq!(parse_cpu_list(text), Some(vec![3, 0, 1]), "{text}");
        }
        for wrong in ["", "a", "1-", "3-1", "1,,2", "-1", "0-99999999999"] {
            assert_eq!(parse_cpu_list(wrong), None, "{wrong}");
        }
    }
}
