//! Packets: their bytes, the number in each, and how they are drawn.

mod answer;
mod build;
mod draw;
mod encapsulated;
mod number;
mod odd;
mod session;
mod tags;
mod tunneled;

pub use answer::answer;
pub use build::{Quirk, Spec, Transport, tcp};
pub(crate) use build::{checksum, id_of, udp_sum};
pub use draw::draw;
pub(crate) use draw::{Place, draw_from, talks};
pub(crate) use encapsulated::{framed, opened, sum_up};
pub use number::{number_in, payload};
pub(crate) use session::{Session, into_session};
pub(crate) use tags::{retagged, tagged, untagged};
pub(crate) use tunneled::{
    Around, Framed, fragments, into_tunnel, saying_longer, tos_in, with_ecn,
};

/// A MAC address as `ip` reads it.
pub fn mac_text(mac: [u8; 6]) -> String {
    mac.map(|b| format!("{b:02x}")).join(":")
}

/// Bytes in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Bytes of hexadecimal digits; what is none ends it.
pub fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .chars()
        .map_while(|c| Some(c.to_digit(16)? as u8))
        .collect();
    digits.chunks_exact(2).map(|d| d[0] << 4 | d[1]).collect()
}
