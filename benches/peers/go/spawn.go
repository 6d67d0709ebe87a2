package main

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

func yieldMany() float64 {
	const fibers, yields = 200, 1000
	return timed(fibers*yields, func() {
		var all sync.WaitGroup
		all.Add(fibers)
		for range fibers {
			go func() {
				for range yields {
					runtime.Gosched()
				}
				all.Done()
			}()
		}
		all.Wait()
	})
}

func spawnMany() float64 {
	const fibers = 10_000
	done := make(chan struct{}, 1)
	var left atomic.Int32
	return timed(fibers, func() {
		left.Store(fibers)
		for range fibers {
			go func() {
				if left.Add(-1) == 0 {
					done <- struct{}{}
				}
			}()
		}
		<-done
	})
}

func chain(depth int, done chan struct{}) {
	if depth == 0 {
		done <- struct{}{}
	} else {
		go chain(depth-1, done)
	}
}

func chainedSpawn() float64 {
	const depth = 1000
	return timed(depth, func() {
		done := make(chan struct{}, 1)
		chain(depth, done)
		<-done
	})
}

func pingPong() float64 {
	const pairs = 1000
	return timed(pairs, func() {
		var left atomic.Int32
		left.Store(pairs)
		done := make(chan struct{}, 1)
		for range pairs {
			go func() {
				ping, pong := make(chan struct{}, 1), make(chan struct{}, 1)
				go func() {
					<-ping
					pong <- struct{}{}
				}()
				ping <- struct{}{}
				<-pong
				if left.Add(-1) == 0 {
					done <- struct{}{}
				}
			}()
		}
		<-done
	})
}

func grow(depth int) int {
	if depth == 0 {
		return 1
	}
	counts := make(chan int, 2)
	for range 2 {
		go func() { counts <- grow(depth - 1) }()
	}
	return 1 + <-counts + <-counts
}

func tree() float64 {
	const depth = 13
	const fibers = 1<<(depth+1) - 1
	return timed(fibers, func() {
		if grow(depth) != fibers {
			panic("a wrong tree")
		}
	})
}

// compute takes some 10 us.
func compute(x uint64) uint64 {
	for i := range uint64(10_000) {
		x = x*6_364_136_223_846_793_005 ^ i
	}
	return x
}

func forkJoin() float64 {
	fibers := scale(1_000, 50)
	return timed(fibers, func() {
		sums := make([]uint64, fibers)
		var all sync.WaitGroup
		all.Add(fibers)
		for i := range fibers {
			go func() {
				sums[i] = compute(uint64(i))
				all.Done()
			}()
		}
		all.Wait()
	})
}

func halves() float64 {
	return timed(1, func() {
		var both sync.WaitGroup
		both.Add(2)
		for range 2 {
			go func() {
				computeFor(10 * time.Millisecond)
				both.Done()
			}()
		}
		both.Wait()
	}) / 1e3
}
