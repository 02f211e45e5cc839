//! TCP between a lab's hosts.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use rxlane_bench::lab::Place;
use rxlane_system::netns::within;

use super::TestLab;

/// A connection between hosts: the end of the client, and that of the server.
pub fn connect(t: &TestLab, server: &str) -> (TcpStream, TcpStream) {
    let server: SocketAddr = server.parse().unwrap();
    let listen = || Ok(TcpListener::bind(server).expect("a listener"));
    let listener = within(&t.lab.netns(Place::Sink), false, listen).expect("the namespace");
    let reach = || Ok(TcpStream::connect_timeout(&server, Duration::from_secs(20)));
    let near = within(&t.lab.netns(Place::Gen), false, reach).expect("the namespace");
    let near = near.unwrap_or_else(|error| panic!("{server}: {error}"));
    (near, listener.accept().unwrap().0)
}

/// Connections whose clients send as fast as they can, until they are dropped.
pub struct Uploads(Vec<(TcpStream, TcpStream)>);

impl Uploads {
    pub fn begin(t: &TestLab, n: u16) -> Self {
        let all = (0..n).map(|i| connect(t, &format!("10.20.0.2:{}", 7100 + i)));
        let all = Self(all.collect());
        for (near, far) in &all.0 {
            let (mut near, mut far) = (near.try_clone().unwrap(), far.try_clone().unwrap());
            std::thread::spawn(move || while near.write_all(&[9; 100_000]).is_ok() {});
            std::thread::spawn(move || while far.read(&mut [0; 100_000]).is_ok_and(|n| n > 0) {});
        }
        all
    }
}

impl Drop for Uploads {
    fn drop(&mut self) {
        for end in self.0.iter().flat_map(|(near, far)| [near, far]) {
            let _ = end.shutdown(std::net::Shutdown::Both);
        }
    }
}

/// Sends bytes that tell where they belong, there and back again.
pub fn carry(t: &TestLab, server: &str) {
    let (mut near, mut far) = connect(t, server);
    let said: Vec<u8> = (0..3_000_000_u32)
        .flat_map(|n| n.to_be_bytes()[1..].to_vec())
        .collect();
    let echo = std::thread::spawn(move || {
        let mut heard = vec![0; 100_000];
        while let Ok(n @ 1..) = far.read(&mut heard) {
            far.write_all(&heard[..n]).expect("sent");
        }
    });
    let (mut to, all) = (near.try_clone().unwrap(), said.clone());
    let sender = std::thread::spawn(move || to.write_all(&all).expect("sent"));
    let mut heard = vec![0; said.len()];
    near.read_exact(&mut heard).expect("received");
    assert!(heard == said, "what came back is what was said");
    sender.join().expect("all is sent");
    drop(near);
    echo.join().expect("the other end ends");
}

/// Hosts send a packet for each segment, with its checksum, as they do behind network cards.
pub fn leave_nothing_to_devices(t: &TestLab) {
    for place in [Place::Gen, Place::Sink] {
        let all = "$(ls /sys/class/net | grep -v '^lo$')";
        t.must(
            place,
            &format!("for d in {all}; do ethtool -K $d tx off tso off gso off; done"),
        );
    }
}
