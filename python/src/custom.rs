//! Functions of Python in the place of traffic, a stage or throttling.
//!
//! The interpreter is held for a batch, and for nothing in between. What they raise ends the run, and is what the caller gets.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rxlane_policy::Ps;
use rxlane_policy::throttle::Sample;
use rxlane_sim::custom::{Arrivals, Coming, Controller, Custom, Fault, ServiceTimes, Start};

use crate::error::of_key;

/// The classes of `rxlane._callables`, and the key in whose place each stands.
const KINDS: [(&str, &str); 3] = [
    ("Arrivals", "traffic.pattern"),
    ("Stage", "stage"),
    ("Controller", "interrupt.throttling"),
];

/// Takes the value of a key if it is a function, or, where it is none, forgets the function that stood there.
pub(crate) fn take(key: &str, value: &Bound<'_, PyAny>, custom: &mut Custom) -> PyResult<bool> {
    let known = value.py().import("rxlane._callables")?;
    for (kind, place) in KINDS {
        if !value.is_instance(&known.getattr(kind)?)? {
            continue;
        }
        if key != place {
            let message =
                format!("{key}: rxlane.{kind} stands in the place of {place}: give it as that key");
            return Err(of_key(key, message));
        }
        let function = value.clone().unbind();
        let all = std::mem::take(custom);
        *custom = match kind {
            "Arrivals" => {
                all.arrivals(move |start| Ok(Box::new(Batches(begun(&function, start)?))))
            }
            "Stage" => all.service(move |start| Ok(Box::new(Times(begun(&function, start)?)))),
            _ => all.controller(move |start| Ok(Box::new(Law(begun(&function, start)?)))),
        };
        return Ok(true);
    }
    match key {
        "traffic.pattern" | "traffic" => custom.arrivals = None,
        "stage" => custom.service = None,
        "interrupt.throttling" | "interrupt" => custom.controller = None,
        _ => {}
    }
    Ok(false)
}

/// Keys whose value is a function.
pub(crate) fn keys(custom: &Custom) -> Vec<&'static str> {
    let there = [
        custom.arrivals.is_some(),
        custom.service.is_some(),
        custom.controller.is_some(),
    ];
    let named = KINDS.into_iter().zip(there);
    named
        .filter(|(_, there)| *there)
        .map(|((_, key), _)| key)
        .collect()
}

fn fault(error: PyErr) -> Fault {
    Box::new(error)
}

fn begun(function: &Py<PyAny>, start: Start) -> Result<Py<PyAny>, Fault> {
    Python::attach(|py| function.call_method1(py, "_start", (start.seed, start.classes)))
        .map_err(fault)
}

fn numbers(bytes: &[u8]) -> impl Iterator<Item = f64> + '_ {
    let (eights, _) = bytes.as_chunks();
    eights.iter().map(|b| f64::from_ne_bytes(*b))
}

struct Batches(Py<PyAny>);

impl Arrivals for Batches {
    fn next(&mut self, batch: &mut Vec<Coming>) -> Result<(), Fault> {
        type Parts<'py> = (
            Bound<'py, PyBytes>,
            Bound<'py, PyBytes>,
            Bound<'py, PyBytes>,
        );
        Python::attach(|py| {
            let given = self.0.call_method0(py, "next")?;
            let Some((times, classes, sizes)) = given.extract::<Option<Parts<'_>>>(py)? else {
                return Ok(());
            };
            let (fours, _) = sizes.as_bytes().as_chunks();
            let packets = numbers(times.as_bytes()).zip(classes.as_bytes()).zip(fours);
            batch.extend(packets.map(|((ns, class), size)| Coming {
                at: Ps::from_ns(ns),
                class: usize::from(*class),
                bytes: u32::from_ne_bytes(*size),
            }));
            Ok(())
        })
        .map_err(fault)
    }
}

struct Times(Py<PyAny>);

impl ServiceTimes for Times {
    fn next(&mut self, class: usize, batch: &mut Vec<f64>) -> Result<(), Fault> {
        Python::attach(|py| {
            let given = self.0.call_method1(py, "next", (class,))?;
            batch.extend(numbers(given.bind(py).cast::<PyBytes>()?.as_bytes()));
            Ok(())
        })
        .map_err(fault)
    }
}

struct Law(Py<PyAny>);

impl Controller for Law {
    fn update(&mut self, sample: Sample) -> Result<f64, Fault> {
        Python::attach(|py| {
            let of = (sample.packets, sample.bytes, sample.elapsed.0);
            self.0.call_method1(py, "update", of)?.extract(py)
        })
        .map_err(fault)
    }
}
