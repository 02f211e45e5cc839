//! The least that can be done with a packet: what the lanes are measured beside.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use rxlane_system::xdp::{self, Mode};
use rxlane_system::{SystemError, Tried, links, netns};

use crate::BenchError;
use crate::error::BpfTried;
use crate::lab::{Lab, Place};
use crate::skeletons::bare as skel;

/// What becomes of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bare {
    /// It is the kernel's: what any XDP program costs it.
    Pass,
    /// It is dropped.
    Drop,
    /// It leaves by the first egress port, to the host behind it.
    Redirect,
    /// It leaves where the kernel's FIB says, as with `xdp-forward`.
    Fib,
}

/// The programs.
pub struct Programs {
    pass: OwnedFd,
    drop: OwnedFd,
    redirect: OwnedFd,
    fib: OwnedFd,
}

impl Programs {
    /// Loads them; redirected frames leave through the interface `egress` to `destination`.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn load(egress: u32, destination: [u8; 6]) -> Result<Self, BenchError> {
        let mut storage = MaybeUninit::uninit();
        let mut open = skel::BareSkelBuilder::default()
            .open(&mut storage)
            .tried("open the bare programs")?;
        if let Some(data) = open.maps.rodata_data.as_deref_mut() {
            data.egress = egress;
            data.destination = destination;
        }
        let loaded = open.load().tried("load the bare programs")?;
        let keep = |fd: BorrowedFd<'_>| {
            fd.try_clone_to_owned()
                .map_err(libbpf_rs::Error::from)
                .tried("keep the bare programs")
        };
        Ok(Self {
            pass: keep(loaded.progs.bare_pass.as_fd())?,
            drop: keep(loaded.progs.bare_drop.as_fd())?,
            redirect: keep(loaded.progs.bare_redirect.as_fd())?,
            fib: keep(loaded.progs.bare_fib.as_fd())?,
        })
    }

    /// The program that does so.
    pub fn program(&self, what: Bare) -> BorrowedFd<'_> {
        match what {
            Bare::Pass => self.pass.as_fd(),
            Bare::Drop => self.drop.as_fd(),
            Bare::Redirect => self.redirect.as_fd(),
            Bare::Fib => self.fib.as_fd(),
        }
    }
}

/// Puts a program in charge of a lab's ingress ports, and one that only passes of all ports, until the returned links are dropped. What it redirects must be
/// taken by the egress ports' drivers, as of the lab's veths.
pub(crate) fn attach(lab: &Lab, what: Bare) -> Result<Vec<OwnedFd>, BenchError> {
    let ports = lab.router_ports();
    let sink = netns::within(&lab.netns(Place::Sink), false, || links::by_name("snk0"))?;
    let router = lab.netns(Place::Router);
    let egress = netns::within(&router, false, || links::by_name("out0"))?;
    let programs = Programs::load(egress.ifindex, sink.mac)?;
    let attached: Result<Vec<OwnedFd>, SystemError> = netns::within(&router, false, || {
        let on = ports
            .iter()
            .filter(|p| what == Bare::Pass || p.starts_with("in"));
        on.map(|name| {
            let ifindex = links::by_name(name)?.ifindex;
            xdp::attach(programs.program(what), ifindex, Mode::Any)
                .tried(|| format!("attach to {name}"))
        })
        .collect()
    });
    Ok(attached?)
}
