//! What this kernel offers, found by looking rather than by version alone.

use std::io::Read;
use std::path::Path;

/// Whether the running kernel's type information knows a function, in the kernel proper or in a module.
///
/// BTF stores names as zero-terminated strings, so a byte search answers without parsing.
pub fn btf_knows(module: &str, name: &str) -> bool {
    ["vmlinux", module].iter().any(|object| {
        let path = Path::new("/sys/kernel/btf").join(object);
        std::fs::read(path).is_ok_and(|btf| contains_string(&btf, name))
    })
}

fn contains_string(haystack: &[u8], name: &str) -> bool {
    let mut needle = vec![0];
    needle.extend_from_slice(name.as_bytes());
    needle.push(0);
    haystack.windows(needle.len()).any(|w| w == needle)
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
        let btf = b"\0napi_poll\0other\0";
        assert!(contains_string(btf, "napi_poll"));
        assert!(!contains_string(btf, "napi"));
    }
}
