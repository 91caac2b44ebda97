//! A histogram as lines of text: limit, bar, count, share.

use breme_base::grouped;
use breme_load_result::HistogramBin;

use crate::figures::{duration, percent};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistogramLine {
    /// Upper limit, right-aligned.
    pub limit: String,
    /// Bar, padded to the width available for bars.
    pub bar: String,
    /// Count and share, right-aligned.
    pub count: String,
}

const LIMIT_WIDTH: usize = 9;
const SHARE_WIDTH: usize = 7;
const GAP: &str = "  ";
/// Eighths of a column.
const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
const BAR_WIDTH_MIN: usize = 4;

impl HistogramLine {
    /// All parts, separated.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{}{GAP}{}{GAP}{}", self.limit, self.bar, self.count)
    }
}

/// The bins as lines of `width` columns, or somewhat longer if that leaves no room for bars.
#[must_use]
pub fn histogram_lines(bins: &[HistogramBin], width: usize) -> Vec<HistogramLine> {
    let total: u64 = bins.iter().map(|bin| bin.count).sum();
    let largest = bins.iter().map(|bin| bin.count).max().unwrap_or(0).max(1);
    let count_width = grouped(largest).len();
    let bar_width =
        width.saturating_sub(LIMIT_WIDTH + 2 * GAP.len() + count_width + SHARE_WIDTH + 1).max(BAR_WIDTH_MIN);
    let line = |bin: &HistogramBin| {
        let share = bin.count as f64 / total.max(1) as f64;
        HistogramLine {
            limit: format!("{:>LIMIT_WIDTH$}", duration(bin.to_ns)),
            bar: format!("{:<bar_width$}", bar(bin.count, largest, bar_width)),
            count: format!("{:>count_width$} {:>SHARE_WIDTH$}", grouped(bin.count), percent(share)),
        }
    };
    bins.iter().map(line).collect()
}

/// Any count above 0 is visible.
fn bar(count: u64, largest: u64, width: usize) -> String {
    let eighths = (count as f64 / largest as f64 * width as f64 * 8.0).round() as usize;
    let eighths = eighths.max(usize::from(count > 0));
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_the_width_and_bars_are_in_proportion() {
        let bin = |to_ns, count| HistogramBin { from_ns: 0, to_ns, count };
        let bins = [bin(100_000, 0), bin(125_000, 1), bin(2_000_000, 10_000), bin(4_321_000_000, 5_000)];
        for width in [40, 60, 80, 200] {
            let lines = histogram_lines(&bins, width);
            assert!(lines.iter().all(|line| line.text().chars().count() == width), "{lines:#?}");
            let bar = |index: usize| lines[index].bar.trim_end().chars().count();
            assert!((bar(0), bar(1)) == (0, 1) && (2 * bar(3)).abs_diff(bar(2)) <= 1, "{lines:#?}");
        }
        let text: Vec<String> = histogram_lines(&bins, 46).iter().map(HistogramLine::text).collect();
        let expected = ["   4.32 s", "  ", "█████████▌", "         ", "  ", " 5,000", " ", "   33 %"].concat();
        assert_eq!(text[3], expected);
    }
}
