//! Loading the lane for tc ingress (bpf/lane/tc.bpf.c), which is the XDP program's source compiled for skbs, with that program's maps and
//! constants: what is told to one is told to both.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};

use libbpf_rs::{Map, MapCore, MapHandle, MapInfo, Object, ObjectBuilder};

use crate::verifier::{self, Accepted};
use crate::{BpfError, BpfTried, pinned};

const NAME: &str = "rxlane_tc";

/// As ELF wants its headers.
#[repr(C, align(8))]
struct Aligned<B: ?Sized>(B);

/// Without a skeleton, which would look for maps by the names that they have in this object.
static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/tc.bpf.o")));

/// Loads the program on top of all maps that the XDP program was loaded with.
///
/// # Errors
/// When the kernel refuses it.
pub fn load(xdp: &Object) -> Result<(OwnedFd, Accepted), BpfError> {
    let tried = || "share maps with the program of traffic control".to_owned();
    let mut all = BTreeMap::new();
    // Of maps that were not made libbpf holds something else.
    let made = |map: &Map<'_>| MapInfo::new(map.as_fd()).is_ok();
    for map in xdp.maps().filter(made) {
        let name = own_name(&map.name().to_string_lossy()).to_owned();
        all.insert(name, MapHandle::try_from(&map).tried(tried)?);
    }
    let mut open = ObjectBuilder::default()
        .open_memory(&OBJECT.0)
        .tried(|| "open the program of traffic control".into())?;
    for mut map in open.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        match all.get(own_name(&name)) {
            Some(shared) => map.reuse_fd(shared.as_fd()).tried(tried)?,
            None => map.set_autocreate(false).tried(tried)?,
        }
    }
    let loaded = verifier::load(NAME, || open.load())?;
    let mut programs = loaded.progs();
    let Some(program) = programs.next() else {
        unreachable!("the object has one program")
    };
    let program = program.as_fd();
    Ok((pinned::keep_program(program)?, Accepted::ask(NAME, program)))
}

/// Constants have the object's name in front of theirs.
fn own_name(map: &str) -> &str {
    map.rfind('.').map_or(map, |dot| &map[dot..])
}

#[cfg(test)]
mod tests {
    const XDP: &str = include_str!(concat!(env!("OUT_DIR"), "/lane.skel.rs"));
    const TC: &str = include_str!(concat!(env!("OUT_DIR"), "/tc.skel.rs"));

    #[test]
    fn both_programs_have_the_same_constants_in_the_same_places() {
        let constants = |text: &str| {
            let from = text
                .find("pub struct rodata {")
                .expect("there are constants");
            let end = text[from..]
                .find("\n    }")
                .or_else(|| text[from..].find("\n}"));
            text[from..from + end.expect("the struct ends")].to_owned()
        };
        assert_eq!(constants(XDP), constants(TC));
    }
}
