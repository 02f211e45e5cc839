//! The decisions of the router, to be called one by one: for teaching, and to try them.

use pyo3::prelude::*;
use rxlane_policy::bound::{LatencyBound, largest_ring_budget};
use rxlane_policy::poll::{self, Order, Rounds, Step};
use rxlane_policy::strategy::{self, StrategyName};
use rxlane_policy::throttle::{self, Linear};
use rxlane_policy::{Pps, Ps};
use serde::Deserialize;
use serde::de::value::{Error as Unknown, StrDeserializer};

use crate::error::{WrongPolicy, of_policy};

/// A name as scenario files write it.
fn named<T: for<'a> Deserialize<'a>>(what: &str, name: &str) -> PyResult<T> {
    T::deserialize(StrDeserializer::<Unknown>::new(name))
        .map_err(|e| WrongPolicy::new_err(format!("{what} = {name}: {e}")))
}

/// Serve this ring until it is empty, but at most `at_most` packets; then say how many with QVector.served.
#[pyclass(frozen, module = "rxlane", eq)]
#[derive(Clone, PartialEq)]
pub(crate) struct Serve {
    /// Number of the ring, 0 for the highest class.
    #[pyo3(get)]
    ring: usize,
    /// How many packets at most; never 0.
    #[pyo3(get)]
    at_most: u32,
}

#[pymethods]
impl Serve {
    fn __repr__(&self) -> String {
        format!("Serve(ring={}, at_most={})", self.ring, self.at_most)
    }
}

/// How a poll ended.
#[pyclass(frozen, module = "rxlane", eq, eq_int)]
#[derive(Clone, PartialEq)]
pub(crate) enum PollEnd {
    /// All rings are empty: the device leaves the poll list, and its interrupt is on again.
    #[pyo3(name = "DRAINED")]
    Drained,
    /// Packets are left: the device goes to the tail of the poll list, and its interrupt stays off.
    #[pyo3(name = "BUDGET_SPENT")]
    BudgetSpent,
}

/// The Rx rings of a device behind one interrupt, and how far a poll has come with them (low-latency-router Fig. 2).
///
/// ring_budgets: packets of a turn of each ring, highest class first.
/// device_budget: packets of a poll.
/// order: which ring has the first turn, "lowest-first" or "highest-first".
/// rounds: "until-spent", or "one": one turn of every ring.
///
/// >>> device, held = rxlane.QVector([60, 4]), [10, 100]
/// >>> device.begin()
/// >>> while isinstance(step := device.next(held), rxlane.Serve):
/// ...     served = min(step.at_most, held[step.ring])
/// ...     held[step.ring] -= served
/// ...     device.served(served)
/// >>> step, held
/// (PollEnd.BUDGET_SPENT, [0, 46])
///
/// Raises PolicyError for budgets that cannot work.
#[pyclass(module = "rxlane")]
#[derive(Clone)]
pub(crate) struct QVector {
    inner: poll::QVector,
}

#[pymethods]
impl QVector {
    #[new]
    #[pyo3(signature = (ring_budgets, device_budget=64, *, order="lowest-first", rounds="until-spent"))]
    fn new(
        ring_budgets: Vec<u32>,
        device_budget: u32,
        order: &str,
        rounds: &str,
    ) -> PyResult<Self> {
        let order: Order = named("order", order)?;
        let rounds: Rounds = named("rounds", rounds)?;
        let inner = poll::QVector::new(&ring_budgets, device_budget, order, rounds);
        Ok(Self {
            inner: inner.map_err(|e| of_policy(&e))?,
        })
    }

    /// Begins a poll, with the whole device budget and the first ring's turn.
    fn begin(&mut self) {
        self.inner.begin();
    }

    /// The next step, given how many packets each ring holds now: Serve or PollEnd.
    fn next<'py>(&mut self, py: Python<'py>, holds: Vec<u64>) -> PyResult<Bound<'py, PyAny>> {
        if holds.len() != self.inner.rings() {
            return Err(WrongPolicy::new_err(format!(
                "{} rings hold packets, but the device has {}: give a number a ring, highest class first",
                holds.len(),
                self.inner.rings()
            )));
        }
        Ok(match self.inner.next(|ring| holds[ring] > 0) {
            Step::Serve { ring, at_most } => Serve { ring, at_most }.into_pyobject(py)?.into_any(),
            Step::End(poll::PollEnd::Drained) => PollEnd::Drained.into_pyobject(py)?.into_any(),
            Step::End(poll::PollEnd::BudgetSpent) => {
                PollEnd::BudgetSpent.into_pyobject(py)?.into_any()
            }
        })
    }

    /// Says how many packets the last step served.
    fn served(&mut self, packets: u32) {
        self.inner.served(packets);
    }

    /// Packets that the device may still have served in this poll.
    #[getter]
    fn left(&self) -> u32 {
        self.inner.left()
    }

    /// Rings of the device.
    #[getter]
    fn rings(&self) -> usize {
        self.inner.rings()
    }
}

/// Where the packets of a class wait.
#[pyclass(frozen, module = "rxlane", eq)]
#[derive(Clone, PartialEq)]
pub(crate) struct Place {
    /// Number of the device.
    #[pyo3(get)]
    device: usize,
    /// Number of the ring in it.
    #[pyo3(get)]
    ring: usize,
}

#[pymethods]
impl Place {
    fn __repr__(&self) -> String {
        format!("Place(device={}, ring={})", self.device, self.ring)
    }
}

/// A scheduling strategy of low-latency-router Table I: which rings there are, and which budgets they have.
///
/// name: "sq" (one ring), "rr" (a device a class), "ll-rr" (a ring a class, equal budgets: `ring_budget`) or "ll-wfq" (a ring a
/// class, budgets by priority: `budgets`, highest class first).
///
/// >>> strategy = rxlane.Strategy("ll-wfq", budgets=[60, 4])
/// >>> strategy.in_front_of_the_highest(2)
/// 4
/// >>> devices, places = strategy.layout(2)
/// >>> len(devices), places
/// (1, [Place(device=0, ring=0), Place(device=0, ring=1)])
#[pyclass(frozen, module = "rxlane")]
pub(crate) struct Strategy {
    inner: strategy::Strategy,
}

#[pymethods]
impl Strategy {
    #[new]
    #[pyo3(signature = (name, *, ring_budget=None, budgets=None))]
    fn new(name: &str, ring_budget: Option<u32>, budgets: Option<Vec<u32>>) -> PyResult<Self> {
        let name: StrategyName = name.parse().map_err(|e| of_policy(&e))?;
        let wrong = |cure: &str| Err(WrongPolicy::new_err(format!("strategy {name}: {cure}")));
        let inner = match (name, ring_budget, budgets) {
            (StrategyName::Sq, None, None) => strategy::Strategy::Sq,
            (StrategyName::Rr, None, None) => strategy::Strategy::Rr,
            (StrategyName::LlRr, Some(ring_budget), None) => {
                strategy::Strategy::LlRr { ring_budget }
            }
            (StrategyName::LlWfq, None, Some(budgets)) => strategy::Strategy::LlWfq { budgets },
            (StrategyName::LlRr, ..) => return wrong("give ring_budget, and no budgets"),
            (StrategyName::LlWfq, ..) => return wrong("give budgets, and no ring_budget"),
            _ => return wrong("it has no ring budgets: leave them out"),
        };
        Ok(Self { inner })
    }

    /// Its name.
    #[getter]
    fn name(&self) -> String {
        self.inner.name().to_string()
    }

    /// The devices for so many classes, and the place of each class, highest first.
    #[pyo3(signature = (classes, device_budget=64, *, order="lowest-first"))]
    fn layout(
        &self,
        classes: usize,
        device_budget: u32,
        order: &str,
    ) -> PyResult<(Vec<QVector>, Vec<Place>)> {
        let layout = self
            .inner
            .layout(classes, device_budget, named("order", order)?)
            .map_err(|e| of_policy(&e))?;
        let devices = layout.devices.into_iter().map(|inner| QVector { inner });
        let places = layout.places.iter().map(|p| Place {
            device: p.device,
            ring: p.ring,
        });
        Ok((devices.collect(), places.collect()))
    }

    /// Packets of lower classes that are served at most before the ring of the highest is looked at again: `b` of Eq. 1, where
    /// `devices` take turns on one core. In the one ring of SQ, all that the `ring` holds.
    #[pyo3(signature = (classes, device_budget=64, *, devices=1, ring=512))]
    fn in_front_of_the_highest(
        &self,
        classes: u32,
        device_budget: u32,
        devices: u32,
        ring: u32,
    ) -> u32 {
        self.inner
            .in_front_of_the_highest(classes, device_budget, devices, ring)
    }

    fn __repr__(&self) -> String {
        format!("<rxlane.Strategy {}>", self.inner.name())
    }
}

/// The interrupt rate falls linearly with the packet rate (interrupt-throttling V.C): `r_max` interrupts a second when idle,
/// `r_min` at `rho_max_pps` and beyond.
///
/// >>> rxlane.LinearLaw().interrupts_per_second(1.05e6)
/// 54000.0
///
/// Raises PolicyError unless 0 < r_min <= r_max and rho_max_pps > 0.
#[pyclass(frozen, module = "rxlane")]
pub(crate) struct LinearLaw {
    inner: throttle::LinearLaw,
}

#[pymethods]
impl LinearLaw {
    #[new]
    #[pyo3(signature = (r_max=100_000.0, r_min=8_000.0, rho_max_pps=2_100_000.0))]
    fn new(r_max: f64, r_min: f64, rho_max_pps: f64) -> PyResult<Self> {
        let inner = throttle::LinearLaw {
            r_max,
            r_min,
            rho_max_pps,
        };
        Linear::new(inner).map_err(|e| of_policy(&e))?;
        Ok(Self { inner })
    }

    /// Interrupts a second at so many packets a second.
    fn interrupts_per_second(&self, pps: f64) -> f64 {
        self.inner.interrupts_per_second(Pps(pps))
    }

    /// The least time between two interrupts at so many packets a second, ns.
    fn interval_ns(&self, pps: f64) -> f64 {
        1e9 / self.interrupts_per_second(pps)
    }
}

/// The longest that an RT packet waits: `T_max = b x / (1 - rho_RT)` (low-latency-router Eq. 1).
///
/// ring_budget: best-effort packets served before the RT ring is looked at again, `b`.
/// service_time_ns: of a best-effort packet, `x`.
/// rho_rt: share of the core that RT traffic may use.
///
/// >>> round(rxlane.Bound(4, 571, 0.3).t_max_ns)
/// 3263
#[pyclass(frozen, module = "rxlane", name = "Bound")]
pub(crate) struct RtBound {
    inner: LatencyBound,
}

#[pymethods]
impl RtBound {
    #[new]
    fn new(ring_budget: f64, service_time_ns: f64, rho_rt: f64) -> PyResult<Self> {
        let sound = ring_budget >= 0.0 && service_time_ns > 0.0 && rho_rt >= 0.0;
        if !(sound && ring_budget.is_finite() && service_time_ns.is_finite()) {
            return Err(WrongPolicy::new_err(
                "a bound needs ring_budget >= 0, service_time_ns > 0 and rho_rt >= 0, all of them finite",
            ));
        }
        let inner = LatencyBound::new(ring_budget, Ps::from_ns(service_time_ns), rho_rt);
        Ok(Self { inner })
    }

    /// The bound, ns; infinite where `rho_rt >= 1`.
    #[getter]
    fn t_max_ns(&self) -> f64 {
        self.inner.t_max_ns
    }

    /// The largest ring budget that keeps the bound within `m` service times (Eq. 2), at least 1.
    ///
    /// >>> rxlane.Bound.largest_ring_budget(6, 0.3)
    /// 4
    #[staticmethod]
    fn largest_ring_budget(m: f64, rho_rt: f64) -> u32 {
        largest_ring_budget(m, rho_rt)
    }
}
