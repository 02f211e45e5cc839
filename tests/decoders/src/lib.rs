//! Whatever rxlane reads that others wrote: frames, files, the kernel's messages. A function for each takes any bytes, and
//! panics where what must hold of them does not.
//!
//! `fuzz/` drives them with bytes that it makes up, and `tests/seeds.rs` with those of `fuzz/seeds`: a sample of what is
//! read, and whatever a fuzzer has found.

mod engine;
mod files;
mod headers;
mod netlink;

/// A decoder under its name, which is also that of its fuzz target and of its folder of seeds.
pub type Decoder = (&'static str, fn(&[u8]));

/// All of them.
pub const DECODERS: [Decoder; 8] = [
    ("headers", headers::headers),
    ("engine", engine::engine),
    ("config", files::config),
    ("capture", files::capture),
    ("journal", files::journal),
    ("json", files::json),
    ("routing", netlink::routing),
    ("surroundings", netlink::surroundings),
];

/// Runs the decoder of that name.
///
/// # Panics
/// When there is none, or when something does not hold that should.
pub fn decode(name: &str, bytes: &[u8]) {
    let (_, decoder) = DECODERS
        .iter()
        .find(|(n, _)| *n == name)
        .unwrap_or_else(|| panic!("there is no decoder `{name}`"));
    decoder(bytes);
}
