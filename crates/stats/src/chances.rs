//! Chances that are corrected together: what they must be beforehand, and from which to which the corrections go.

/// What is not a number counts as 1, and nothing is outside of 0 to 1.
pub(crate) fn cleaned(p: &[f64]) -> Vec<f64> {
    p.iter().map(|&p| if p.is_nan() { 1.0 } else { p.clamp(0.0, 1.0) }).collect()
}

/// The places of cleaned chances, the smallest first.
pub(crate) fn ascending(p: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&left, &right| p[left].total_cmp(&p[right]));
    order
}
