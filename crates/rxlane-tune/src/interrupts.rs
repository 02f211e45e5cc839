//! Interrupts of network devices: `/proc/interrupts`, and which of them are whose.

use serde::Serialize;

use crate::machine::Machine;

/// What an interrupt of a device is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// Received packets, perhaps sent ones too.
    Rx,
    /// Only sent packets.
    Tx,
    /// Link changes, configuration.
    Other,
}

/// A line of `/proc/interrupts`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Interrupt {
    /// Number of the interrupt line.
    pub number: u32,
    /// Who asked for it.
    pub action: String,
    /// Times since boot, over all cores.
    pub count: u64,
}

/// All numbered interrupts.
pub fn all(machine: &dyn Machine) -> Vec<Interrupt> {
    let text = machine.read("/proc/interrupts").unwrap_or_default();
    let mut lines = text.lines();
    let cores = lines
        .next()
        .map_or(0, |l| l.split_ascii_whitespace().count());
    lines
        .filter_map(|line| {
            let (number, rest) = line.trim_start().split_once(':')?;
            let words: Vec<&str> = rest.split_ascii_whitespace().collect();
            let counts = words.get(..cores)?;
            Some(Interrupt {
                number: number.parse().ok()?,
                // After the chip and the hardware's number: names, separated by commas when the line is shared.
                action: words.get(cores..)?.last()?.to_string(),
                count: counts.iter().filter_map(|c| c.parse::<u64>().ok()).sum(),
            })
        })
        .collect()
}

/// Those of a device, with what they are for, by queue.
pub fn of_device(
    machine: &dyn Machine,
    device: &str,
    all: &[Interrupt],
) -> Vec<(Interrupt, Purpose)> {
    let base = format!("/sys/class/net/{device}/device");
    // A virtio device's are its parent's.
    let mut numbers: Vec<u32> = Vec::new();
    for path in [format!("{base}/msi_irqs"), format!("{base}/../msi_irqs")] {
        numbers.extend(
            machine
                .list(&path)
                .iter()
                .filter_map(|n| n.parse::<u32>().ok()),
        );
    }
    if let Some(irq) = machine.read(&format!("{base}/irq")) {
        numbers.extend(irq.trim().parse::<u32>().ok().filter(|n| *n > 0));
    }
    let bus = machine.link(&base).unwrap_or_default();
    let mut own: Vec<Interrupt> = all
        .iter()
        .filter(|i| {
            let named = is_named_after(&i.action, device)
                || (bus.starts_with("virtio") && is_named_after(&i.action, &bus));
            named || numbers.contains(&i.number)
        })
        .cloned()
        .collect();
    own.sort_by_key(|i| i.number);
    let mut purposes: Vec<Purpose> = own.iter().map(|i| purpose(&i.action)).collect();
    if !purposes.contains(&Purpose::Rx) {
        // One interrupt for everything.
        purposes = vec![Purpose::Rx; own.len()];
    }
    own.into_iter().zip(purposes).collect()
}

/// `eth0`, `eth0-rx-0`, `i40e-eth0-TxRx-3`, `virtio2-input.0`.
fn is_named_after(action: &str, name: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    action.match_indices(name).any(|(at, _)| {
        let before = action[..at].chars().next_back();
        let after = action[at + name.len()..].chars().next();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

fn purpose(action: &str) -> Purpose {
    let action = action.to_ascii_lowercase();
    if action.contains("rx") || action.contains("input") || action.contains("comp") {
        Purpose::Rx
    } else if action.contains("tx") || action.contains("output") {
        Purpose::Tx
    } else {
        Purpose::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_drivers_are_understood() {
        for (action, device) in [
            ("eth0", "eth0"),
            ("eth0-rx-0", "eth0"),
            ("i40e-eth0-TxRx-3", "eth0"),
            ("virtio2-input.0", "virtio2"),
            ("ixgbe:eth0", "eth0"),
        ] {
            assert!(is_named_after(action, device), "{action}");
        }
        for (action, device) in [
            ("eth01-rx-0", "eth0"),
            ("veth0", "eth0"),
            ("virtio21-input.0", "virtio2"),
        ] {
            assert!(!is_named_after(action, device), "{action}");
        }
        assert_eq!(purpose("eth0-TxRx-3"), Purpose::Rx);
        assert_eq!(purpose("mlx5_comp3@pci:0000:03:00.0"), Purpose::Rx);
        assert_eq!(purpose("virtio2-output.0"), Purpose::Tx);
        assert_eq!(purpose("virtio2-config"), Purpose::Other);
    }
}
