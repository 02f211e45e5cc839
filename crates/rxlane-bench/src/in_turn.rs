//! The order of trials.

/// One trial of each device, in the order of the devices, but measured from another one on in each round: what comes and goes in the
/// machine at the pace of the trials must not always hit the same one.
pub(crate) fn in_turn<T, E>(
    round: u32,
    devices: usize,
    mut trial: impl FnMut(usize) -> Result<T, E>,
) -> Result<Vec<T>, E> {
    let first = round as usize % devices.max(1);
    let mut trials = Vec::with_capacity(devices);
    for i in (first..devices).chain(0..first) {
        trials.push(trial(i)?);
    }
    trials.rotate_right(first);
    Ok(trials)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_round_begins_with_another_device_and_tells_of_them_in_order() {
        let mut order = Vec::new();
        for round in 0..4 {
            let trials: Result<Vec<usize>, ()> = in_turn(round, 3, |i| {
                order.push(i);
                Ok(i)
            });
            assert_eq!(trials, Ok(vec![0, 1, 2]));
        }
        assert_eq!(order, [0, 1, 2, 1, 2, 0, 2, 0, 1, 0, 1, 2]);
    }
}
