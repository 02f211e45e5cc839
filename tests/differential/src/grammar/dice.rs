use rand::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

/// Where all that is drawn comes from; the same seed draws the same.
#[derive(Debug)]
pub struct Dice(Pcg64Mcg);

impl Dice {
    /// Dice of a seed.
    pub fn new(seed: u64) -> Self {
        Self(Pcg64Mcg::seed_from_u64(seed))
    }

    /// True so many times of a hundred.
    pub fn chance(&mut self, percent: u32) -> bool {
        self.0.random_range(0..100) < percent
    }

    /// A number below another; 0 below 0.
    pub fn below(&mut self, end: usize) -> usize {
        self.0.random_range(0..end.max(1))
    }

    /// Any number.
    pub fn any_u32(&mut self) -> u32 {
        self.0.random()
    }

    /// One of some, which must be at least one.
    pub fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }
}
