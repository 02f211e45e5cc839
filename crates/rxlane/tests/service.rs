//! The daemon under a service manager: what it says over the socket that `sd_notify(3)` describes.

mod common;

use std::os::unix::net::UnixDatagram;
use std::process::Stdio;
use std::time::Duration;

use common::{Background, REST, TestLab, VOICE_ALL, binary};
use nix::sys::signal::Signal;
use rxlane_bench::lab::Place;

fn next(socket: &UnixDatagram) -> String {
    let mut text = [0; 2048];
    let n = socket.recv(&mut text).expect("the daemon says something");
    String::from_utf8_lossy(&text[..n]).into_owned()
}

#[test]
#[ignore = "needs root: make test"]
fn the_service_manager_hears_of_readiness_reloads_refusals_and_the_end() {
    let mut t = TestLab::up("notify", |_| ());
    let classes = format!("{VOICE_ALL}{REST}");
    let config = t.config("router", &classes);
    let path = std::env::temp_dir().join("t-notify.sock");
    let _ = std::fs::remove_file(&path);
    let socket = UnixDatagram::bind(&path).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let child = std::process::Command::new(binary())
        .args(["--netns", &t.lab.netns(Place::Router), "run"])
        .arg("-c")
        .arg(&config)
        .env("NOTIFY_SOCKET", &path)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let router = Background(child);

    let ready = next(&socket);
    assert!(ready.contains("READY=1"), "{ready}");
    assert!(
        ready.contains("STATUS=serving 2 classes on in0 (native)"),
        "{ready}"
    );
    // Ready means attached: whoever waits for it may send packets at once.
    let status = t.rxlane(&["status", "--json"]);
    assert!(status.status.success());

    router.signal(Signal::SIGHUP);
    let reloading = next(&socket);
    assert!(reloading.contains("RELOADING=1"), "{reloading}");
    assert!(reloading.contains("MONOTONIC_USEC="), "{reloading}");
    assert!(next(&socket).contains("READY=1"));

    std::fs::write(&config, "ports = [").unwrap();
    router.signal(Signal::SIGHUP);
    assert!(next(&socket).contains("RELOADING=1"));
    let refused = next(&socket);
    assert!(refused.contains("READY=1"), "{refused}");
    assert!(refused.contains("STATUS=refused"), "{refused}");

    router.end(Signal::SIGTERM);
    assert!(next(&socket).contains("STOPPING=1"));
    let _ = std::fs::remove_file(&path);
}
