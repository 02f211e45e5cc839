//! What ethtool shows and sets: rings and interrupt moderation (Documentation/networking/ethtool-netlink.rst).
//! The `ethtool` crate can only ask for these.

use std::cell::OnceCell;

use netlink_packet_core::DefaultNla;

use crate::SystemError;
use crate::genl::{Family, byte, find, nest, number};

/// A setting of a device.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Setting {
    /// Descriptors of an Rx ring.
    RxRing,
    /// The most that the device allows; cannot be set.
    RxRingMax,
    /// Least time between two interrupts for received packets, us.
    RxUsecs,
    /// Packets after which there is an interrupt in any case.
    RxFrames,
    /// Whether the driver chooses the interval itself, 0 or 1.
    AdaptiveRx,
}

const RINGS_GET: u8 = 15;
const RINGS_SET: u8 = 16;
const COALESCE_GET: u8 = 19;
const COALESCE_SET: u8 = 20;
/// Attributes of the header and, in both families of commands, where it stands.
const HEADER: u16 = 1;
const DEV_NAME: u16 = 2;

impl Setting {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::RxRing,
        Self::RxRingMax,
        Self::RxUsecs,
        Self::RxFrames,
        Self::AdaptiveRx,
    ];

    /// As files and messages name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::RxRing => "rx-ring",
            Self::RxRingMax => "rx-ring-max",
            Self::RxUsecs => "rx-usecs",
            Self::RxFrames => "rx-frames",
            Self::AdaptiveRx => "adaptive-rx",
        }
    }

    fn is_of_rings(self) -> bool {
        matches!(self, Self::RxRing | Self::RxRingMax)
    }

    /// Number of its attribute.
    fn attribute(self) -> u16 {
        match self {
            Self::RxRingMax | Self::RxUsecs => 2,
            Self::RxFrames => 3,
            Self::RxRing => 6,
            Self::AdaptiveRx => 11,
        }
    }
}

pub(crate) fn header(device: &str) -> DefaultNla {
    let mut name = device.as_bytes().to_vec();
    name.push(0);
    nest(HEADER, &[DefaultNla::new(DEV_NAME, name)])
}

/// The family, opened when it is first needed.
#[derive(Default)]
pub struct Ethtool {
    family: OnceCell<Family>,
}

impl std::fmt::Debug for Ethtool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ethtool")
    }
}

impl Ethtool {
    fn family(&self) -> Result<&Family, SystemError> {
        if let Some(family) = self.family.get() {
            return Ok(family);
        }
        let family = Family::open("ethtool")?;
        Ok(self.family.get_or_init(|| family))
    }

    /// A device's setting; `None` where the driver has none.
    ///
    /// # Errors
    /// When there is no such device, or the kernel refuses for another reason than that the driver has no such
    /// setting.
    pub fn get(&self, device: &str, setting: Setting) -> Result<Option<u64>, SystemError> {
        let cmd = if setting.is_of_rings() {
            RINGS_GET
        } else {
            COALESCE_GET
        };
        match self.family()?.ask(cmd, vec![header(device)]) {
            Ok(answer) => Ok(find(&answer, setting.attribute())),
            Err(SystemError::Refused { source, .. })
                if source.raw_os_error() == Some(libc::EOPNOTSUPP) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Changes a setting; others of the device stay.
    ///
    /// # Errors
    /// When the driver refuses the value.
    pub fn set(&self, device: &str, setting: Setting, value: u64) -> Result<(), SystemError> {
        let cmd = if setting.is_of_rings() {
            RINGS_SET
        } else {
            COALESCE_SET
        };
        let value = match setting {
            Setting::AdaptiveRx => byte(setting.attribute(), u8::from(value != 0)),
            _ => number(
                setting.attribute(),
                u32::try_from(value).unwrap_or(u32::MAX),
            ),
        };
        match self.family()?.ask(cmd, vec![header(device), value]) {
            Ok(_) => Ok(()),
            Err(SystemError::Refused { source, .. }) => Err(SystemError::Refused {
                what: format!("set {} of {device}: its driver refuses", setting.name()),
                source,
            }),
            Err(error) => Err(error),
        }
    }
}
