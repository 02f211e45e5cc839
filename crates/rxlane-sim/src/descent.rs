//! Looks for the values that cost least, one after the other, with steps that become smaller: few values, and a cost that is a
//! simulation, call for no more.

/// A value to look for.
#[derive(Debug, Clone, Copy)]
pub struct Axis {
    /// Where the search begins.
    pub start: f64,
    /// The first step.
    pub step: f64,
    /// It is not below this.
    pub min: f64,
    /// Nor above this.
    pub max: f64,
}

/// Steps are halved so often.
const HALVINGS: u32 = 7;

/// Values from which no step of any size leads to less, and what `evaluate` found there beside the cost.
///
/// # Errors
/// The first of `evaluate`.
pub fn descend<T, E>(
    axes: &[Axis],
    mut evaluate: impl FnMut(&[f64]) -> Result<(f64, T), E>,
) -> Result<(Vec<f64>, T), E> {
    let mut values: Vec<f64> = axes.iter().map(|a| a.start).collect();
    let mut best = evaluate(&values)?;
    let mut scale = 1.0;
    for _ in 0..=HALVINGS {
        loop {
            let mut moved = false;
            for (i, axis) in axes.iter().enumerate() {
                for direction in [1.0, -1.0] {
                    let mut tried = values.clone();
                    tried[i] = (tried[i] + direction * scale * axis.step).clamp(axis.min, axis.max);
                    if tried[i] == values[i] {
                        continue;
                    }
                    let found = evaluate(&tried)?;
                    if found.0 < best.0 {
                        (values, best, moved) = (tried, found, true);
                        break;
                    }
                }
            }
            if !moved {
                break;
            }
        }
        scale /= 2.0;
    }
    Ok((values, best.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_point_of_a_bowl_is_found_within_the_last_step_and_the_bounds() {
        let axis = |max| Axis {
            start: 10.0,
            step: 4.0,
            min: -20.0,
            max,
        };
        let bowl = |v: &[f64]| {
            let cost = (v[0] - 3.3).powi(2) + (v[1] - 30.0).powi(2) + (v[0] * v[1] / 50.0).powi(2);
            Ok::<_, ()>((cost, cost))
        };
        let (found, cost) = descend(&[axis(100.0), axis(20.0)], bowl).unwrap();
        assert_eq!(found[1], 20.0);
        // The derivative along the first axis vanishes at 3.3 / 1.16.
        assert!((found[0] - 3.3 / 1.16).abs() < 4.0 / 64.0, "{found:?}");
        assert_eq!(cost, bowl(&found).unwrap().0);
        assert_eq!(
            descend(&[axis(100.0)], |_| Err::<(f64, ()), _>("no")),
            Err("no")
        );
    }
}
