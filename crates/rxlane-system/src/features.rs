//! What this kernel offers, found by looking rather than by version alone.

use std::io::Read;
use std::path::Path;

/// The running kernel's type information (BTF), of the kernel proper and of some of its modules.
///
/// Source: Documentation/bpf/btf.rst. BTF stores names as zero-terminated strings, so a search for bytes answers
/// without parsing.
#[derive(Debug, Default)]
pub struct KernelTypes(Vec<Vec<u8>>);

impl KernelTypes {
    /// Reads what /sys/kernel/btf has of the kernel and of `modules`; what is not there knows nothing.
    pub fn read(modules: &[&str]) -> Self {
        let objects = ["vmlinux"].iter().chain(modules);
        Self(
            objects
                .filter_map(|object| std::fs::read(Path::new("/sys/kernel/btf").join(object)).ok())
                .collect(),
        )
    }

    /// Whether there is any type information.
    pub fn are_there(&self) -> bool {
        !self.0.is_empty()
    }

    /// Whether a function or type of this name is known.
    pub fn know(&self, name: &str) -> bool {
        let needle = [b"\0", name.as_bytes(), b"\0"].concat();
        let finder = memchr::memmem::Finder::new(&needle);
        self.0.iter().any(|btf| finder.find(btf).is_some())
    }
}

/// Whether AF_XDP sockets can be opened.
pub fn has_af_xdp() -> bool {
    use rustix::net::{AddressFamily, SocketType, socket};
    // What is refused for another reason, a missing capability for instance, is there all the same.
    !matches!(
        socket(AddressFamily::XDP, SocketType::RAW, None),
        Err(rustix::io::Errno::AFNOSUPPORT)
    )
}

/// Version of the running kernel as (major, minor), and as it names itself.
pub fn kernel_version() -> Option<((u32, u32), String)> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    let release = release.trim().to_owned();
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    let major = parts.next()?.parse().ok()?;
    let minor = parts.next()?.parse().ok()?;
    Some(((major, minor), release))
}

/// Ticks a second (`CONFIG_HZ`) of the running kernel; `None` where its configuration is nowhere to be read.
pub fn hz() -> Option<u32> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    let release = release.trim();
    let unpacked = || {
        let mut text = String::new();
        let file = std::fs::File::open("/proc/config.gz").ok()?;
        flate2::read::GzDecoder::new(file)
            .read_to_string(&mut text)
            .ok()?;
        Some(text)
    };
    [
        format!("/boot/config-{release}"),
        format!("/lib/modules/{release}/config"),
        format!("/lib/modules/{release}/build/.config"),
    ]
    .iter()
    .find_map(|path| std::fs::read_to_string(path).ok())
    .or_else(unpacked)
    .and_then(|text| hz_of(&text))
}

fn hz_of(config: &str) -> Option<u32> {
    config
        .lines()
        .find_map(|line| line.strip_prefix("CONFIG_HZ="))?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tick_rate_is_read_from_a_configuration() {
        assert_eq!(
            hz_of("# CONFIG_HZ_100 is not set\nCONFIG_HZ_250=y\nCONFIG_HZ=250\n"),
            Some(250)
        );
        assert_eq!(hz_of("CONFIG_HZ_250=y\n"), None);
    }

    #[test]
    fn a_name_is_found_whole_or_not_at_all() {
        let types = KernelTypes(vec![b"\0napi_poll\0other\0".to_vec()]);
        assert!(types.know("napi_poll"));
        assert!(!types.know("napi"));
    }
}
