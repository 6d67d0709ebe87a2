//! Under loom: nobody runs while the bell is far off, and a call is heard.

use super::*;
use crate::primitives::models::check;
use crate::primitives::sync::Arc;
use crate::primitives::sync::atomic::AtomicBool;
use loom::thread;

const PERIOD: Duration = Duration::from_secs(1);
const FAR: Moment = Moment::from_nanos(1_000_000_000_000);

/// The supervisor, and two workers of which each is parked or runs.
struct World {
    watch: Watch,
    runs: [AtomicBool; 2],
    /// Somebody has left the poller to nobody.
    left: AtomicBool,
}

fn now() -> Moment {
    Moment::now()
}

impl World {
    fn new(runs: [bool; 2]) -> Arc<World> {
        let watch = Watch::new(Some(PERIOD)).unwrap();
        Arc::new(World { watch, runs: runs.map(AtomicBool::new), left: AtomicBool::new(false) })
    }

    fn all_rest(&self) -> bool {
        !self.runs.iter().any(|runs| runs.load(Ordering::Relaxed))
    }

    fn leaves_its_bed(&self, worker: usize) {
        self.runs[worker].store(true, Ordering::Relaxed);
        self.watch.notice(now());
    }

    fn leaves_the_poller(&self, worker: usize) {
        self.runs[worker].store(true, Ordering::Relaxed);
        self.left.store(true, Ordering::Relaxed);
        let other = || !self.runs[1 - worker].load(Ordering::Relaxed);
        self.watch.relieve(now(), RELIEF, other);
    }

    fn parks(&self, worker: usize) {
        self.runs[worker].store(false, Ordering::Relaxed);
        full_fence();
        self.watch.put_off(now(), FAR, || self.all_rest());
    }

    fn lies_down(&self, far: Moment) -> bool {
        let near = now().saturating_add(self.watch.look);
        self.watch.lie_down(near, far, || self.all_rest())
    }

    /// The bell rings within `time`, and is set as `due` says.
    fn assert_rings_within(&self, time: Duration) {
        let due = self.watch.is_due();
        assert!(due <= now().saturating_add(time), "somebody runs, and nobody looks");
        if due.as_nanos() != LOOKS {
            assert_eq!(self.watch.bell.as_ref().unwrap().is_set_to(), due);
        }
    }
}

/// While the supervisor goes to sleep for good.
#[test]
fn who_leaves_its_bed_is_seen_or_sets_the_bell() {
    check(3, || {
        let world = World::new([false; 2]);
        let theirs = Arc::clone(&world);
        let worker = thread::spawn(move || theirs.leaves_its_bed(0));
        let rests = world.lies_down(Moment::NEVER);
        worker.join().unwrap();
        world.assert_rings_within(world.watch.look);
        assert!(rests || world.runs[0].load(Ordering::Relaxed));
    });
}

/// While the supervisor looks, or goes to sleep: it has not seen that, and sleeps no longer than the other wants.
#[test]
fn who_leaves_the_poller_is_seen_to_in_time() {
    for other_runs in [false, true] {
        check(3, move || {
            let world = World::new([false, other_runs]);
            let theirs = Arc::clone(&world);
            let worker = thread::spawn(move || theirs.leaves_the_poller(0));
            let _ = world.lies_down(Moment::NEVER);
            worker.join().unwrap();
            world.assert_rings_within(world.watch.relief());
        });
    }
}

/// While the bell rings: the supervisor sees that the poller was left, or is told when to look. Another worker runs:
/// who is alone puts the ring off.
#[test]
fn who_leaves_the_poller_as_the_bell_rings_is_seen_to_in_time() {
    check(3, || {
        let world = World::new([false, true]);
        // It rings at once, and nobody has called.
        world.watch.set(world.watch.bell.as_ref().unwrap(), now());
        let theirs = Arc::clone(&world);
        let worker = thread::spawn(move || theirs.leaves_the_poller(0));
        // As the supervisor does.
        world.watch.sleep();
        let left = world.left.load(Ordering::Relaxed);
        let time = if left { world.watch.relief() } else { world.watch.look };
        let near = now().saturating_add(time);
        let _ = world.watch.lie_down(near, FAR, || !left && world.all_rest());
        worker.join().unwrap();
        world.assert_rings_within(world.watch.relief());
    });
}

/// While another parks, and finds that it is the last.
#[test]
fn who_leaves_is_seen_by_who_puts_the_bell_off() {
    for from_the_poller in [false, true] {
        check(3, move || {
            let world = World::new([false, true]);
            // The supervisor sleeps, as somebody runs.
            assert!(!world.lies_down(FAR));
            let theirs = Arc::clone(&world);
            let worker = thread::spawn(move || match from_the_poller {
                true => theirs.leaves_the_poller(0),
                false => theirs.leaves_its_bed(0),
            });
            world.parks(1);
            worker.join().unwrap();
            let relief = world.watch.relief();
            world.assert_rings_within(if from_the_poller { relief } else { world.watch.look });
        });
    }
}

/// Two that leave at once: neither takes itself for the only one and the other's word for nothing.
#[test]
fn of_two_that_leave_the_poller_each_is_seen_to() {
    check(3, || {
        let world = World::new([false; 2]);
        assert!(world.lies_down(FAR));
        let theirs = Arc::clone(&world);
        let worker = thread::spawn(move || theirs.leaves_the_poller(0));
        world.leaves_the_poller(1);
        worker.join().unwrap();
        world.assert_rings_within(world.watch.relief());
    });
}

/// The models stand still where a call is lost.
#[test]
fn a_call_ends_the_sleep() {
    check(3, || {
        let world = World::new([false; 2]);
        let theirs = Arc::clone(&world);
        let caller = thread::spawn(move || theirs.watch.wake());
        let _ = world.lies_down(Moment::NEVER);
        world.watch.sleep();
        caller.join().unwrap();
    });
}
