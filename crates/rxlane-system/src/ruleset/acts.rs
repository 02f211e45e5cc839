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
pub(super) const FILTERS: Effects = Effects {
    filters: true,
    ..NONE
};
pub(super) const MARKS: Effects = Effects {
    marks: true,
    ..NONE
};
pub(super) const REWRITES: Effects = Effects {
    rewrites: true,
    ..NONE
};
pub(super) const TRANSLATES: Effects = Effects {
    translates: true,
    ..NONE
};
pub(super) const DISGUISES: Effects = Effects {
    disguises: true,
    ..REWRITES
};
pub(super) const UNTRACKS: Effects = Effects {
    untracks: true,
    ..MARKS
};
/// Of what is not known.
pub(super) const WORST: Effects = Effects {
    filters: true,
    marks: true,
    rewrites: true,
    disguises: true,
    ..NONE
};
