//! The thin whole: fibers start, wait, wake, end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

#[test]
fn spawn_and_join() {
    assert_eq!(volt::go(|| 6 * 7).join().unwrap(), 42);
}

#[test]
fn run_in_run() {
    let n = volt::run(|| {
        let inner = volt::run(|| volt::go(|| 1).join().unwrap() + 1);
        inner + 1
    });
    assert_eq!(n, 3);
}

#[test]
fn many_fibers_yield() {
    let count = Arc::new(AtomicUsize::new(0));
    let fibers: Vec<_> = (0..1000)
        .map(|_| {
            let count = Arc::clone(&count);
            volt::go(move || {
                for _ in 0..100 {
                    count.fetch_add(1, Ordering::Relaxed);
                    volt::yield_now();
                }
            })
        })
        .collect();
    for fiber in fibers {
        fiber.join().unwrap();
    }
    assert_eq!(count.load(Ordering::Relaxed), 100_000);
}

#[test]
fn sleeps() {
    let start = std::time::Instant::now();
    let fibers: Vec<_> =
        (0..100).map(|i| volt::go(move || volt::sleep(Duration::from_millis(i % 20)))).collect();
    for fiber in fibers {
        fiber.join().unwrap();
    }
    assert!(start.elapsed() >= Duration::from_millis(19));
    assert!(start.elapsed() < Duration::from_secs(2));
}

#[test]
fn panics_stay_inside() {
    let payload = volt::go(|| {
        if true {
            panic!("boom");
        }
    })
    .join()
    .unwrap_err();
    assert_eq!(*payload.downcast::<&str>().unwrap(), "boom");
}

#[test]
fn park_and_unpark() {
    let main = volt::go(|| {
        let me = volt::current();
        let fiber = volt::go(move || {
            for _ in 0..1000 {
                me.unpark();
                volt::thread::park();
            }
        });
        for _ in 0..1000 {
            volt::thread::park();
            fiber.thread().unpark();
        }
        fiber.join().unwrap();
    });
    main.join().unwrap();
}

#[test]
fn current_thread() {
    let rt = volt::runtime::Builder::new_current_thread().build().unwrap();
    let sum = rt.run(|| {
        let fibers: Vec<_> = (0..10)
            .map(|i| {
                volt::go(move || {
                    volt::sleep(Duration::from_millis(1));
                    i
                })
            })
            .collect();
        fibers.into_iter().map(|f| f.join().unwrap()).sum::<i32>()
    });
    assert_eq!(sum, 45);
    rt.shutdown(Duration::from_secs(1)).unwrap();
}
