//! The paced generator.

use std::mem::MaybeUninit;
use std::os::fd::AsFd;

use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags, MapHandle, Object};

use crate::BenchError;
use crate::course;
use crate::error::BpfTried;
use crate::layout::{
    Bin, Control, Flow, MAX_TRAFFIC_CLASSES, PacedStage, SCHEDULE, Slot, State, Window,
};
use crate::maps::map;
use crate::skeletons::generator as skel;
use crate::test_run::Endless;

/// A running generator, or one for each queue of the router. It sends nothing until [`Generator::start`].
pub(crate) struct Generator {
    controls: MapHandle,
    states: MapHandle,
    stages: MapHandle,
    sent: MapHandle,
    queues: u32,
    driven_by: Box<dyn Drive>,
}

/// What runs the program, until it is dropped.
pub(crate) trait Drive {
    /// It is to run at least until the window is over.
    fn keep_going(&self, _window: Window) -> Result<(), BenchError> {
        Ok(())
    }

    /// The program has been told to send nothing.
    fn has_ended(&self) -> Result<(), BenchError> {
        Ok(())
    }
}

impl Drive for Endless {}

/// The mean gap of a rate, in 1/256 ns.
pub(crate) fn gap_x256(pps: f64) -> u64 {
    (256e9 / pps) as u64
}

impl Generator {
    /// Loads the program and starts its thread on `core`, in a network namespace or here; `added`: bytes of tags or outer headers.
    pub(crate) fn new(
        netns: Option<&str>,
        core: usize,
        frame: usize,
        schedules: &[Vec<Slot>],
        flows: &[Flow],
        added: usize,
    ) -> Result<Self, BenchError> {
        let mut storage = MaybeUninit::uninit();
        let mut open = skel::GeneratorSkelBuilder::default()
            .open(&mut storage)
            .tried("open the generator")?;
        if let Some(data) = open.maps.rodata_data.as_deref_mut() {
            data.added = added as u32;
        }
        let loaded = open.load().tried("load the generator")?;
        let program = loaded
            .progs
            .rxlane_generate
            .as_fd()
            .try_clone_to_owned()
            .map_err(libbpf_rs::Error::from)
            .tried("keep the generator")?;
        fill(loaded.object(), schedules, flows)?;
        let thread = Endless::new(netns, core, frame, program)?;
        Self::of(loaded.object(), 1, Box::new(thread))
    }

    /// Generators of a loaded program that something else drives, by the queue that they fill.
    pub(crate) fn driven_by(
        drive: impl Drive + 'static,
        object: &Object,
        schedules: &[Vec<Slot>],
        flows: &[Flow],
    ) -> Result<Self, BenchError> {
        fill(object, schedules, flows)?;
        Self::of(object, schedules.len() as u32, Box::new(drive))
    }

    fn of(object: &Object, queues: u32, driven_by: Box<dyn Drive>) -> Result<Self, BenchError> {
        Ok(Self {
            queues,
            controls: map(object, "controls")?,
            states: map(object, "states")?,
            stages: map(object, "stages")?,
            sent: map(object, "sent")?,
            driven_by,
        })
    }

    /// Sends at a mean rate; packets stamped within the window are counted from zero.
    pub(crate) fn start(&self, pps: f64, window: Window) -> Result<(), BenchError> {
        self.begin(pps, 0, window)
    }

    /// Sends at the rate before the window, and follows the stages in it.
    pub(crate) fn follow(
        &self,
        pps: f64,
        stages: &[PacedStage],
        window: Window,
    ) -> Result<(), BenchError> {
        course::clear(&self.sent)?;
        for (key, stage) in (0u32..).zip(stages) {
            let of_each = PacedStage {
                mean_gap_x256: stage.mean_gap_x256 * u64::from(self.queues),
                ..*stage
            };
            self.stages
                .update(
                    &key.to_ne_bytes(),
                    bytemuck::bytes_of(&of_each),
                    MapFlags::ANY,
                )
                .tried("write the profile")?;
        }
        self.begin(pps, stages.len() as u64, window)
    }

    /// What was sent in each bin of the window.
    pub(crate) fn course(&self) -> Result<Vec<Bin>, BenchError> {
        course::read(&self.sent)
    }

    fn begin(&self, pps: f64, stages: u64, window: Window) -> Result<(), BenchError> {
        for queue in 0..self.queues {
            let state = State {
                position: self.state(queue)?.position,
                ..State::default()
            };
            self.states
                .update(
                    &queue.to_ne_bytes(),
                    bytemuck::bytes_of(&state),
                    MapFlags::ANY,
                )
                .tried("reset the generator")?;
        }
        self.control(Control {
            mean_gap_x256: gap_x256(pps / f64::from(self.queues)),
            queues: self.queues.into(),
            stages,
            window,
        })?;
        self.driven_by.keep_going(window)
    }

    /// Sends no more.
    pub(crate) fn pause(&self) -> Result<(), BenchError> {
        self.control(Control::default())?;
        self.driven_by.has_ended()
    }

    fn control(&self, control: Control) -> Result<(), BenchError> {
        self.controls
            .update(
                &0u32.to_ne_bytes(),
                bytemuck::bytes_of(&control),
                MapFlags::ANY,
            )
            .tried("control the generator")
    }

    /// What was sent in the window, by class.
    pub(crate) fn sent(&self) -> Result<[u64; MAX_TRAFFIC_CLASSES], BenchError> {
        let mut sum = [0; MAX_TRAFFIC_CLASSES];
        for queue in 0..self.queues {
            for (sum, sent) in sum.iter_mut().zip(self.state(queue)?.sent) {
                *sum += sent;
            }
        }
        Ok(sum)
    }

    fn state(&self, queue: u32) -> Result<State, BenchError> {
        let bytes = self
            .states
            .lookup(&queue.to_ne_bytes(), MapFlags::ANY)
            .tried("read the generator's state")?
            .unwrap_or_default();
        Ok(bytemuck::pod_read_unaligned(&bytes))
    }
}

impl Drop for Generator {
    fn drop(&mut self) {
        let _ = self.pause();
    }
}

fn fill(object: &Object, schedules: &[Vec<Slot>], flows: &[Flow]) -> Result<(), BenchError> {
    let schedule = map(object, "schedule")?;
    for (queue, slots) in schedules.iter().enumerate() {
        for (key, slot) in (queue * SCHEDULE..).zip(slots) {
            let key = (key as u32).to_ne_bytes();
            schedule
                .update(&key, bytemuck::bytes_of(slot), MapFlags::ANY)
                .tried("fill the schedule")?;
        }
    }
    let written = map(object, "flows")?;
    for (key, flow) in (0u32..).zip(flows) {
        written
            .update(&key.to_ne_bytes(), bytemuck::bytes_of(flow), MapFlags::ANY)
            .tried("write the flows")?;
    }
    Ok(())
}
