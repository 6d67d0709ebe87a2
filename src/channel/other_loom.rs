//! Under loom a select waits for channels and for cases of others.

/// Of those there is none.
pub(crate) enum Other {
    None,
}
