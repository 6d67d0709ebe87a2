//! Pure structures: no threads, no clock, no knowledge of fibers.
