//! All pairs: a small set of choices in which every two values of two different dimensions meet.
//!
//! Most faults of a program that is specialised by its configuration need one or two settings to show; all
//! pairs find these with some 70 configurations instead of 20,000 (Cohen et al., "The AETG System",
//! IEEE Transactions on Software Engineering 23(7), 1997).

use std::collections::BTreeSet;

/// A value of one dimension met with a value of another: `(dimension, value, dimension, value)`.
type Pair = (usize, usize, usize, usize);

/// Rows with an index into each dimension, `sizes[i]` being the number of values of dimension `i`.
pub(crate) fn all_pairs(sizes: &[usize]) -> Vec<Vec<usize>> {
    let mut open: BTreeSet<Pair> = (0..sizes.len())
        .flat_map(|a| (a + 1..sizes.len()).map(move |b| (a, b)))
        .flat_map(|(a, b)| {
            (0..sizes[a]).flat_map(move |x| (0..sizes[b]).map(move |y| (a, x, b, y)))
        })
        .collect();
    let mut rows = Vec::new();
    while let Some(&(a, x, b, y)) = open.first() {
        let mut row = vec![None; sizes.len()];
        (row[a], row[b]) = (Some(x), Some(y));
        for dimension in 0..sizes.len() {
            if row[dimension].is_none() {
                row[dimension] = Some(best(&row, dimension, sizes[dimension], &open, rows.len()));
            }
        }
        let row: Vec<usize> = row.into_iter().flatten().collect();
        open.retain(|&(a, x, b, y)| row[a] != x || row[b] != y);
        rows.push(row);
    }
    rows
}

/// The value of `dimension` that closes the most open pairs with what the row has; ties take turns.
fn best(
    row: &[Option<usize>],
    dimension: usize,
    values: usize,
    open: &BTreeSet<Pair>,
    turn: usize,
) -> usize {
    let closes = |value: usize| {
        (0..row.len())
            .filter_map(|other| Some((other, row[other]?)))
            .filter(|&(other, chosen)| {
                open.contains(&if other < dimension {
                    (other, chosen, dimension, value)
                } else {
                    (dimension, value, other, chosen)
                })
            })
            .count()
    };
    (0..values)
        .map(|i| (i + turn) % values)
        .rev()
        .max_by_key(|&value| closes(value))
        .unwrap_or(0)
}

#[test]
fn every_two_values_of_different_dimensions_meet() {
    let sizes = [6, 4, 12, 3, 3, 5, 5];
    let rows = all_pairs(&sizes);
    for a in 0..sizes.len() {
        for b in a + 1..sizes.len() {
            let met: BTreeSet<_> = rows.iter().map(|r| (r[a], r[b])).collect();
            assert_eq!(met.len(), sizes[a] * sizes[b], "dimensions {a} and {b}");
        }
    }
    assert!(
        rows.len() < 100,
        "{} rows are too many for a test",
        rows.len()
    );
}
