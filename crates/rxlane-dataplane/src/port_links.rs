//! Links that hold the program on ports: each is pinned by the name that its device had when it was attached, which it may have lost since.

use std::path::PathBuf;

use libbpf_rs::Link;
use rxlane_bpf::BpfError;
use rxlane_bpf::pinned;
use rxlane_system::links::{Link as NetDevice, Links};
use rxlane_system::tcx;

use crate::DataplaneError;
use crate::instance::Instance;

pub(crate) fn open_link(instance: &Instance, port: &str) -> Option<Link> {
    let path = instance.port_link(port);
    path.exists().then(|| Link::open(path).ok())?
}

/// Our links in this network namespace, by id: who looks at what is attached leaves them out.
pub(crate) fn ours() -> Vec<u32> {
    let Ok(instance) = Instance::current() else {
        return Vec::new();
    };
    let fast = instance.fast_links().into_iter().map(|(_, path)| path);
    let links = instance.port_links().chain(fast);
    links
        .filter_map(|path| Link::open(path).ok())
        .filter_map(|link| Some(link.info().ok()?.id))
        .collect()
}

/// Our link on a device, and where it is pinned: by another name, if the device had that when it was attached.
pub(crate) fn link_on(instance: &Instance, device: &NetDevice) -> Option<(PathBuf, Link)> {
    let is_on = |link: &Link| pinned::link_ifindex(link) == Some(device.ifindex);
    let of_name = open_link(instance, &device.name).filter(is_on);
    if let Some(link) = of_name {
        return Some((instance.port_link(&device.name), link));
    }
    // One whose device is in another network namespace now may have this index there.
    let runs = |link: &Link| {
        link.info().is_ok_and(|info| {
            info.prog_id == device.xdp_program || tcx::has(device.ifindex, info.prog_id)
        })
    };
    instance.port_links().find_map(|path| {
        let link = Link::open(&path).ok()?;
        (is_on(&link) && runs(&link)).then_some((path, link))
    })
}

/// Keeps by its new name what is kept of a port: its link, and what was turned off.
pub(crate) fn rename(instance: &Instance, was: &str, to: &str) -> Result<(), DataplaneError> {
    let (from, into) = (instance.port_link(was), instance.port_link(to));
    if from.exists() {
        pinned::rename_pin(&from, &into)?;
    }
    let mut turned_off = instance.load_turned_off();
    if let Some(features) = turned_off.remove(was) {
        turned_off.insert(to.to_owned(), features);
        instance.save_turned_off(&turned_off)?;
    }
    Ok(())
}

/// What the device is called now that was attached to by this name.
pub(crate) fn called_now(instance: &Instance, port: &str, devices: &Links) -> String {
    let attached = open_link(instance, port).and_then(|link| pinned::link_ifindex(&link));
    let device = attached.and_then(|ifindex| devices.at(ifindex));
    device.map_or(port, |device| &device.name).to_owned()
}

/// Takes the program off what was a port and is in another network namespace now, where devices have indices of their own. One
/// that has another name here keeps it, to no effect: taking it away and putting it back takes some links down.
pub(crate) fn let_go(
    instance: &Instance,
    port: &str,
    was: Option<u32>,
    devices: &Links,
) -> Result<(), BpfError> {
    let here = |ifindex: u32| {
        let device = devices.at(ifindex);
        device.is_some_and(|d| d.xdp_program != 0)
    };
    let Some(link) = open_link(instance, port) else {
        return Ok(());
    };
    if was.is_none_or(here) && pinned::link_ifindex(&link).is_some_and(here) {
        return Ok(());
    }
    pinned::detach(&instance.port_link(port))
}
