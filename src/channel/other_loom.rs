//! Under loom a select waits for channels and for cases of others, neither of which has a node of another kind.

pub(crate) enum Other {
    None,
}
