//! One suite for every backend.

use super::{Bounds, Context, prepare, retire, switch};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A piece of memory to run on; the tests stay far from its end.
struct Memory(Vec<u128>);

impl Memory {
    fn new(bytes: usize) -> Memory {
        Memory(vec![0; bytes / 16])
    }

    fn bounds(&mut self) -> Bounds {
        let range = self.0.as_mut_ptr_range();
        Bounds { top: range.end.cast(), limit: range.start.cast() }
    }
}

/// A flow with a partner: what an entry function finds behind its transfer word.
struct Pair {
    main: Cell<Context>,
    flow: Cell<Context>,
    body: fn(&Pair),
}

impl Pair {
    fn to_main(&self, word: usize) -> usize {
        // SAFETY: called on the flow while main is suspended in `resume`.
        unsafe { switch(self.flow.as_ptr(), self.main.get(), word) }
    }

    fn resume(&self, word: usize) -> usize {
        // SAFETY: called on main while the flow is suspended or fresh.
        unsafe { switch(self.main.as_ptr(), self.flow.get(), word) }
    }
}

extern "C" fn entry(transfer: usize) -> ! {
    // SAFETY: `with_pair` hands over a pair that outlives the flow.
    let pair = unsafe { &*(transfer as *const Pair) };
    (pair.body)(pair);
    pair.to_main(usize::MAX);
    unreachable!("a retired flow was continued")
}

/// Starts `body` on a fresh stack and hands its first word to `main`.
fn with_pair(bytes: usize, body: fn(&Pair), main: impl FnOnce(&Pair, usize)) {
    let mut memory = Memory::new(bytes);
    // SAFETY: the memory outlives the flow, which is retired below.
    let flow = unsafe { prepare(memory.bounds(), entry) };
    let pair = Pair { main: Cell::new(Context::thread()), flow: Cell::new(flow), body };
    let first = pair.resume((&raw const pair) as usize);
    main(&pair, first);
    // SAFETY: never continued after this.
    unsafe { retire(pair.flow.get()) };
}

#[test]
fn words_go_both_ways() {
    with_pair(
        64 << 10,
        |pair| {
            let mut word = pair.to_main(1);
            for _ in 0..3 {
                word = pair.to_main(word * 2);
            }
        },
        |pair, first| {
            assert_eq!(first, 1);
            assert_eq!(pair.resume(10), 20);
            assert_eq!(pair.resume(11), 22);
            assert_eq!(pair.resume(12), 24);
            assert_eq!(pair.resume(0), usize::MAX);
        },
    );
}

#[test]
fn a_million_switches() {
    with_pair(
        64 << 10,
        |pair| {
            let mut word = 0;
            while word != usize::MAX - 1 {
                word = pair.to_main(word);
            }
        },
        |pair, _| {
            for i in 1..1_000_000 {
                assert_eq!(pair.resume(i), i);
            }
            assert_eq!(pair.resume(usize::MAX - 1), usize::MAX);
        },
    );
}

/// Many live values across the switch: whatever the compiler keeps in registers must come back.
#[inline(never)]
fn churn(pair: &Pair, seed: u64, step: fn(&Pair)) -> (u64, f64) {
    let mut a: [u64; 12] = std::array::from_fn(|i| seed.wrapping_mul(i as u64 + 3));
    let mut f: [f64; 8] = std::array::from_fn(|i| seed as f64 + i as f64 * 0.5);
    for round in 0..100u64 {
        step(pair);
        for i in 0..12 {
            a[i] = a[i].rotate_left(7).wrapping_add(a[(i + 5) % 12] ^ round);
        }
        for i in 0..8 {
            f[i] = f[i] * 0.5 + f[(i + 3) % 8] * 0.25 + round as f64;
        }
    }
    (a.iter().fold(0, |x, y| x ^ y), f.iter().sum())
}

#[test]
fn registers_survive() {
    fn flow(pair: &Pair) {
        let quiet = churn(pair, 7, |_| ());
        let switched = churn(pair, 7, |pair| {
            pair.to_main(0);
        });
        assert!(quiet == switched, "the flow lost a register");
    }
    with_pair(256 << 10, flow, |pair, _| {
        let quiet = churn(pair, 1234, |_| ());
        let switched = churn(pair, 1234, |pair| {
            pair.resume(0);
        });
        assert!(quiet == switched, "the thread lost a register");
    });
}

#[test]
fn deep_recursion() {
    #[inline(never)]
    fn down(depth: usize, pair: &Pair) -> usize {
        let pad = std::hint::black_box([depth; 16]);
        if depth == 0 {
            pair.to_main(5);
            return 0;
        }
        down(depth - 1, pair) + pad[3] / depth
    }
    with_pair(
        8 << 20,
        |pair| {
            let sum = down(10_000, pair);
            pair.to_main(sum);
        },
        |pair, first| {
            assert_eq!(first, 5);
            assert_eq!(pair.resume(0), 10_000);
        },
    );
}

#[test]
fn a_panic_is_caught_at_the_base_and_backtraces_end_there() {
    fn flow(pair: &Pair) {
        let trace = std::backtrace::Backtrace::force_capture().to_string();
        assert!(trace.contains("entry"), "the base is missing:\n{trace}");
        // corosensei links a flow to the one that resumed it, on purpose; its traces end there.
        let past_base = !cfg!(feature = "context-corosensei") && trace.contains("with_pair");
        assert!(!past_base, "the backtrace ran past the base:\n{trace}");
        let caught = std::panic::catch_unwind(|| std::panic::resume_unwind(Box::new(17usize)));
        let payload = *caught.unwrap_err().downcast::<usize>().unwrap();
        // Nothing comes back here.
        drop(trace);
        pair.to_main(payload);
    }
    with_pair(1 << 20, flow, |_, first| assert_eq!(first, 17));
}

#[test]
fn a_flow_moves_between_threads() {
    static SEEN: AtomicUsize = AtomicUsize::new(0);
    struct Shared<'a>(&'a Pair);
    // SAFETY: the threads below take turns; the scope joins each before the next starts.
    unsafe impl Sync for Shared<'_> {}
    // SAFETY: likewise.
    unsafe impl Send for Shared<'_> {}
    with_pair(
        256 << 10,
        |pair| {
            for _ in 0..8 {
                SEEN.fetch_add(1, Ordering::Relaxed);
                pair.to_main(1);
            }
        },
        |pair, _| {
            let shared = Shared(pair);
            for _ in 0..7 {
                let shared = &shared;
                std::thread::scope(|scope| {
                    scope.spawn(move || shared.0.resume(0)).join().unwrap();
                });
            }
            assert_eq!(SEEN.load(Ordering::Relaxed), 8);
        },
    );
}

#[cfg(target_arch = "x86_64")]
mod floating_point {
    use super::*;
    use std::arch::asm;

    fn mxcsr() -> u32 {
        let mut value = 0u32;
        // SAFETY: a store to a local.
        unsafe { asm!("stmxcsr [{}]", in(reg) &mut value) };
        value
    }

    fn set_mxcsr(value: u32) {
        // SAFETY: only rounding and flush bits and status flags are changed, and put back.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &value) };
    }

    fn x87() -> u16 {
        let mut value = 0u16;
        // SAFETY: a store to a local.
        unsafe { asm!("fnstcw [{}]", in(reg) &mut value) };
        value
    }

    fn set_x87(value: u16) {
        // SAFETY: only the precision bits are changed, and put back.
        unsafe { asm!("fldcw [{}]", in(reg) &value) };
    }

    const ROUND_UP: u32 = 0x4000;
    const FLUSH_TO_ZERO: u32 = 0x8000;
    const INEXACT: u32 = 0x20;

    #[test]
    fn control_bits_belong_to_the_flow() {
        fn flow(pair: &Pair) {
            assert_eq!(mxcsr() & 0xFFC0, 0x1F80, "a fresh flow starts with the default");
            assert_eq!(x87(), 0x037F);
            set_mxcsr(0x1F80 | ROUND_UP);
            set_x87(0x027F);
            pair.to_main(0);
            assert_eq!(mxcsr() & 0xFFC0, 0x1F80 | ROUND_UP);
            assert_eq!(x87(), 0x027F);
            pair.to_main(0);
            set_mxcsr(0x1F80);
            set_x87(0x037F);
        }
        with_pair(64 << 10, flow, |pair, _| {
            assert_eq!(mxcsr() & 0xFFC0, 0x1F80);
            assert_eq!(x87(), 0x037F);
            set_mxcsr(0x1F80 | FLUSH_TO_ZERO);
            pair.resume(0);
            assert_eq!(mxcsr() & 0xFFC0, 0x1F80 | FLUSH_TO_ZERO);
            assert_eq!(x87(), 0x037F);
            set_mxcsr(0x1F80);
            pair.resume(0);
            assert_eq!(mxcsr() & 0xFFC0, 0x1F80);
        });
    }

    #[test]
    fn a_sticky_status_flag_stays() {
        fn flow(pair: &Pair) {
            set_mxcsr(0x1F80 | ROUND_UP);
            pair.to_main(0);
            assert_eq!(mxcsr() & INEXACT, INEXACT, "a switch that loads must keep the flag");
            set_mxcsr(0x1F80);
        }
        with_pair(64 << 10, flow, |pair, _| {
            set_mxcsr(0x1F80 | INEXACT);
            pair.resume(0);
            assert_eq!(mxcsr() & 0xFFC0, 0x1F80);
            set_mxcsr(0x1F80);
        });
    }
}
