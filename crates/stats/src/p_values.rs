//! Preparation of p-values that are corrected together, and the order of the corrections.

/// NaN counts as 1, and all values are clamped to 0 to 1.
pub(crate) fn cleaned(p: &[f64]) -> Vec<f64> {
    p.iter().map(|&p| if p.is_nan() { 1.0 } else { p.clamp(0.0, 1.0) }).collect()
}

/// Indices of cleaned p-values in ascending order.
pub(crate) fn ascending(p: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&left, &right| p[left].total_cmp(&p[right]));
    order
}
