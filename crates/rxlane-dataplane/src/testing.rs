//! Doors for tests only.
