//! What parts of rules can do.

use crate::hook::Effects;

const NONE: Effects = Effects {
    filters: false,
    marks: false,
    rewrites: false,
    translates: false,
    untracks: false,
    disguises: false,
};
pub(crate) const FILTERS: Effects = Effects {
    filters: true,
    ..NONE
};
pub(crate) const MARKS: Effects = Effects {
    marks: true,
    ..NONE
};
pub(crate) const REWRITES: Effects = Effects {
    rewrites: true,
    ..NONE
};
pub(crate) const TRANSLATES: Effects = Effects {
    translates: true,
    ..NONE
};
pub(crate) const DISGUISES: Effects = Effects {
    disguises: true,
    ..REWRITES
};
pub(crate) const UNTRACKS: Effects = Effects {
    untracks: true,
    ..MARKS
};
/// Of what is not known.
pub const WORST: Effects = Effects {
    filters: true,
    marks: true,
    rewrites: true,
    disguises: true,
    ..NONE
};
