//! Where names stand that belong to the ends of lines.

/// Moves positions apart so that each has `height` to itself, none leaves `from..to`, and all stay in their order; as near to
/// where they belong as that allows.
pub(super) fn apart(wanted: &[i32], height: i32, from: i32, to: i32) -> Vec<i32> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by_key(|i| wanted[*i]);
    let mut at = vec![0; wanted.len()];
    let mut above = from - height;
    for i in &order {
        at[*i] = wanted[*i].max(above + height);
        above = at[*i];
    }
    // What was pushed out at the bottom pushes back.
    let mut below = to + height;
    for i in order.iter().rev() {
        at[*i] = at[*i].min(below - height);
        below = at[*i];
    }
    at
}

#[cfg(test)]
mod tests {
    use super::apart;

    #[test]
    fn names_that_would_overlap_are_moved_apart_in_their_order_and_stay_inside() {
        assert_eq!(apart(&[50, 10], 15, 0, 100), [50, 10]);
        assert_eq!(apart(&[50, 52, 51], 15, 0, 100), [50, 80, 65]);
        assert_eq!(apart(&[98, 99], 15, 0, 100), [85, 100]);
        assert_eq!(apart(&[], 15, 0, 100), [0; 0]);
    }
}
