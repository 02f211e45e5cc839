//! Values of knobs, each of its own kind: a plan cannot ask for microseconds where a ring's length is meant.

use std::fmt;

use rxlane_system::threads::Scheduling;

use crate::cpus::{self, Cpus};

/// What a knob is set to. Its text is what people see and the journal keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Cores that may do something.
    Cores(Cpus),
    /// Whether something is done.
    Switch(bool),
    /// A number of things that have no unit.
    Count(u64),
    /// The length of a ring or backlog in packets.
    Packets(u64),
    /// A limit of memory in bytes.
    Bytes(u64),
    /// A time in microseconds, as drivers take it.
    Us(u64),
    /// A time in nanoseconds, as NAPI takes it.
    Ns(u64),
    /// The queue that packets are sent to, if there is one.
    Queue(Option<u64>),
    /// A queue for each entry of a table.
    Queues(Vec<u32>),
    /// How a thread competes for its core.
    Scheduling(Scheduling),
}

/// Which of the values a knob has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A list, `0-3,8`.
    CoreList,
    /// A mask, `ff,00000001`.
    CoreMask,
    Switch,
    Count,
    Packets,
    Bytes,
    Us,
    Ns,
    Queue,
    Queues,
    Scheduling,
}

const NO_QUEUE: &str = "none";
const NORMAL: &str = "normal";
const NICE: &str = "nice ";
const FIFO: &str = "fifo ";

impl Kind {
    /// Reads what the kernel, a recorded tree or a journal says; `None` when that is no such value.
    pub(crate) fn parse(self, text: &str) -> Option<Value> {
        let text = text.trim();
        let number = || text.parse::<u64>().ok();
        Some(match self {
            Self::CoreList => Value::Cores(cpus::parse_list(text)?),
            Self::CoreMask => Value::Cores(cpus::parse_mask(text)?),
            Self::Switch => Value::Switch(match text {
                "0" => false,
                "1" => true,
                _ => return None,
            }),
            Self::Count => Value::Count(number()?),
            Self::Packets => Value::Packets(number()?),
            Self::Bytes => Value::Bytes(number()?),
            Self::Us => Value::Us(number()?),
            Self::Ns => Value::Ns(number()?),
            Self::Queue if text == NO_QUEUE => Value::Queue(None),
            Self::Queue => Value::Queue(Some(text.parse().ok()?)),
            Self::Queues => {
                let queues = text.split(',').map(|q| q.parse().ok());
                Value::Queues(queues.collect::<Option<_>>()?)
            }
            Self::Scheduling if text == NORMAL => Value::Scheduling(Scheduling::Nice(0)),
            Self::Scheduling => {
                let number = |name| text.strip_prefix(name)?.parse().ok();
                let fifo = number(FIFO).map(Scheduling::Fifo);
                Value::Scheduling(fifo.or_else(|| number(NICE).map(Scheduling::Nice))?)
            }
        })
    }

    /// Writes a value as the kernel takes it, which [`Kind::parse`] reads again.
    pub(crate) fn text(self, value: &Value) -> String {
        match (self, value) {
            (Self::CoreMask, Value::Cores(cores)) => cpus::mask(cores),
            _ => value.to_string(),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cores(cores) => f.write_str(&cpus::list(cores)),
            Self::Switch(on) => write!(f, "{}", u8::from(*on)),
            Self::Count(n) | Self::Packets(n) | Self::Bytes(n) | Self::Us(n) | Self::Ns(n) => {
                write!(f, "{n}")
            }
            Self::Queue(None) => f.write_str(NO_QUEUE),
            Self::Queue(Some(queue)) => write!(f, "{queue}"),
            Self::Queues(queues) => {
                let queues: Vec<String> = queues.iter().map(u32::to_string).collect();
                f.write_str(&queues.join(","))
            }
            Self::Scheduling(Scheduling::Nice(0)) => f.write_str(NORMAL),
            Self::Scheduling(Scheduling::Nice(nice)) => write!(f, "{NICE}{nice}"),
            Self::Scheduling(Scheduling::Fifo(priority)) => write!(f, "{FIFO}{priority}"),
        }
    }
}

impl serde::Serialize for Value {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_of_each_kind_is_read_again() {
        let cores: Cpus = [0, 1, 40].into();
        for (kind, value, text) in [
            (Kind::CoreList, Value::Cores(cores.clone()), "0-1,40"),
            (Kind::CoreMask, Value::Cores(cores), "100,00000003"),
            (Kind::Switch, Value::Switch(true), "1"),
            (Kind::Count, Value::Count(2), "2"),
            (Kind::Packets, Value::Packets(512), "512"),
            (Kind::Bytes, Value::Bytes(1 << 20), "1048576"),
            (Kind::Us, Value::Us(14), "14"),
            (Kind::Ns, Value::Ns(14_000), "14000"),
            (Kind::Queue, Value::Queue(None), "none"),
            (Kind::Queue, Value::Queue(Some(3)), "3"),
            (Kind::Queues, Value::Queues(vec![0, 1, 0]), "0,1,0"),
            (
                Kind::Scheduling,
                Value::Scheduling(Scheduling::Nice(0)),
                "normal",
            ),
            (
                Kind::Scheduling,
                Value::Scheduling(Scheduling::Nice(-10)),
                "nice -10",
            ),
            (
                Kind::Scheduling,
                Value::Scheduling(Scheduling::Fifo(50)),
                "fifo 50",
            ),
        ] {
            assert_eq!(kind.text(&value), text);
            assert_eq!(kind.parse(&format!("{text}\n")), Some(value));
        }
    }

    #[test]
    fn what_is_no_value_of_the_kind_is_none() {
        for (kind, text) in [
            (Kind::CoreList, "ff"),
            (Kind::CoreMask, "0-3"),
            (Kind::Switch, "2"),
            (Kind::Us, "-1"),
            (Kind::Queues, "0,,1"),
            (Kind::Scheduling, "fifo"),
            (Kind::Scheduling, "nice"),
        ] {
            assert_eq!(kind.parse(text), None, "{text}");
        }
    }
}
