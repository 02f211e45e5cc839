//! Random numbers with logarithms and powers that are the same on every machine.
//!
//! `ln`, `exp` and `powf` of the standard library are those of the platform's C library, and the last bit of what they
//! return differs from one to the next. Here they are those of the crate `libm`, compiled into the program, so that a
//! scenario has one result: in the command, in Python and in a browser.

mod tables;

use rand::Rng;
use rand::distr::{Distribution, OpenClosed01};

use tables::{HEIGHT, RIGHT, TAIL};

/// An exponentially distributed number with a mean of 1, by the ziggurat method (J. A. Doornik, "An Improved Ziggurat
/// Method to Generate Normal Random Samples", 2005).
#[inline]
pub(crate) fn exponential(rng: &mut impl Rng) -> f64 {
    loop {
        let bits = rng.next_u64();
        // Eight bits choose a box, and fifty-two others a place in it: the fraction of a number from 1 to 2.
        let i = (bits & 0xff) as usize;
        let u = f64::from_bits((bits >> 12) | (1023 << 52)) - (1.0 - f64::EPSILON / 2.0);
        let x = u * RIGHT[i];
        if x < RIGHT[i + 1] {
            return x;
        }
        if let Some(x) = at_an_edge(rng, i, x) {
            return x;
        }
    }
}

/// Where the box is not all below the curve, which is one number in eighty.
#[cold]
fn at_an_edge(rng: &mut impl Rng, i: usize, x: f64) -> Option<f64> {
    let u = rng.random::<f64>();
    if i == 0 {
        return Some(TAIL - libm::log(u));
    }
    (HEIGHT[i + 1] + (HEIGHT[i] - HEIGHT[i + 1]) * u < libm::exp(-x)).then_some(x)
}

/// A number with a Pareto distribution of this exponent, above 1, and a mean of 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Pareto {
    least: f64,
    power: f64,
}

impl Pareto {
    pub(crate) fn new(exponent: f64) -> Self {
        Self {
            least: (exponent - 1.0) / exponent,
            power: -1.0 / exponent,
        }
    }

    pub(crate) fn sample(self, rng: &mut impl Rng) -> f64 {
        let u: f64 = OpenClosed01.sample(rng);
        self.least * libm::pow(u, self.power)
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_distr::Exp1;
    use rand_pcg::Pcg64Mcg;

    use super::*;

    /// Up to the last bits, in which the platform's logarithm may differ.
    fn same(ours: f64, theirs: f64) -> bool {
        (ours / theirs - 1.0).abs() < 1e-14
    }

    #[test]
    fn numbers_are_those_of_rand_distr() {
        let (mut ours, mut theirs) = (Pcg64Mcg::seed_from_u64(1), Pcg64Mcg::seed_from_u64(1));
        for n in 0..1_000_000 {
            let (a, b): (f64, f64) = (exponential(&mut ours), Exp1.sample(&mut theirs));
            assert!(same(a, b), "{n}: {a} and {b}");
        }
        let reference = rand_distr::Pareto::new(0.5 / 1.5, 1.5).unwrap();
        for n in 0..10_000 {
            let (a, b) = (
                Pareto::new(1.5).sample(&mut ours),
                reference.sample(&mut theirs),
            );
            assert!(same(a, b), "{n}: {a} and {b}");
        }
    }
}
