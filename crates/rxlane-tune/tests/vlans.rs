//! VLAN devices have no queues and no interrupts.

mod common;

use common::Tree;
use rxlane_tune::Machine;

#[test]
fn a_vlan_device_is_tuned_as_the_port_under_all_its_tags() {
    let tree = Tree::unpack("e1000e");
    let all = tree.machine.list("/sys/class/net");
    let port = all.iter().find(|name| *name != "lo").unwrap();
    for (upper, lower, kind) in [
        ("v.7", port.as_str(), "vlan"),
        ("v.7.8", "v.7", "vlan"),
        ("br0", port.as_str(), "bridge"),
    ] {
        let folder = tree.dir.path().join("sys/class/net").join(upper);
        std::fs::create_dir_all(&folder).unwrap();
        let event = format!("DEVTYPE={kind}\nINTERFACE={upper}\n");
        std::fs::write(folder.join("uevent"), event).unwrap();
        std::os::unix::fs::symlink(format!("../{lower}"), folder.join(format!("lower_{lower}")))
            .unwrap();
    }
    let of = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| (*name).into()).collect();
        rxlane_tune::inventory::under_vlans(&tree.machine, &names)
    };
    assert_eq!(of(&["v.7.8", "v.7"]), std::slice::from_ref(port));
    // What else is made of ports is what it is.
    assert_eq!(of(&["br0", port]), ["br0".to_owned(), port.clone()]);
    assert_eq!(of(&["absent0"]), ["absent0".to_owned()]);
}
