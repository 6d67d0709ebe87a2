//! Bounds, rounding and messages of sizes.

use crate::stack::StackSize;
use std::io::ErrorKind;

#[test]
fn sizes_are_rounded_up_and_bounded() {
    let min = StackSize::min().bytes();
    for (bytes, rounded) in
        [(min, min), (min + 1, 2 * min), (300_000, 512 << 10), (1 << 30, 1 << 30)]
    {
        assert_eq!(StackSize::new(bytes).unwrap().bytes(), rounded);
    }
    for bytes in [0, 1, min - 1, (1 << 30) + 1, usize::MAX] {
        assert_eq!(StackSize::new(bytes).unwrap_err().kind(), ErrorKind::InvalidInput, "{bytes}");
    }
}

#[test]
fn a_refusal_says_what_was_found_and_both_bounds() {
    let message = StackSize::new(1000).unwrap_err().to_string();
    let min = StackSize::min();
    for part in ["1000 bytes", &min.bytes().to_string(), &min.to_string(), "1073741824", "1 GiB"] {
        assert!(message.contains(part), "{part} is not in: {message}");
    }
}

#[test]
fn guards_are_a_quarter_at_most_and_one_page() {
    let page = rustix::param::page_size();
    let guard = |kib: usize| (StackSize::new(kib << 10).unwrap().guard_bytes() - page) >> 10;
    assert_eq!([64, 128, 256, 1024, 1 << 20].map(guard), [16, 32, 64, 64, 64]);
    let default = if cfg!(debug_assertions) { 1 << 20 } else { 256 << 10 };
    assert_eq!(StackSize::DEFAULT.bytes(), default);
    assert_eq!(StackSize::new(default).unwrap(), StackSize::DEFAULT);
}
