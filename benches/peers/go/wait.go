package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// contend has 10 goroutines lock the mutex, so many times in all; what they do inside and between may be nothing.
func contend(times int, inside, between func()) float64 {
	const fibers = 10
	each := times / fibers
	return timed(fibers*each, func() {
		var mutex sync.Mutex
		var all sync.WaitGroup
		count := 0
		all.Add(fibers)
		for range fibers {
			go func() {
				for range each {
					mutex.Lock()
					if inside != nil {
						inside()
					}
					count++
					mutex.Unlock()
					if between != nil {
						between()
					}
				}
				all.Done()
			}()
		}
		all.Wait()
		if count != fibers*each {
			panic("the mutex does not exclude")
		}
	})
}

func mutex() float64 { return contend(scale(1_000_000, 10_000), nil, nil) }

func mutexHeld() float64 { return contend(scale(200_000, 10_000), runtime.Gosched, nil) }

func mutexComputing() float64 { return contendFor(20*time.Microsecond, 20_000) }

func mutexBrief() float64 { return contendFor(time.Microsecond, 200_000) }

// contendFor has the lock held so many times for so long, and takes as long without it.
func contendFor(time time.Duration, times int) float64 {
	piece := func() { computeFor(time) }
	return contend(scale(times, 1_000), piece, piece) / 1e3
}

func rwlock() float64 { return share(scale(1_000_000, 1_000), nil) }

func rwlockHeld() float64 {
	return share(scale(20_000, 1_000), func() { computeFor(20 * time.Microsecond) }) / 1e3
}

// share has 10 goroutines lock, so many times in all, nine times out of ten to read only.
func share(times int, inside func()) float64 {
	const fibers = 10
	each := times / fibers
	return timed(fibers*each, func() {
		var lock sync.RWMutex
		var all sync.WaitGroup
		count := 0
		all.Add(fibers)
		for range fibers {
			go func() {
				for i := range each {
					if i%10 == 0 {
						lock.Lock()
						count++
						lock.Unlock()
						continue
					}
					lock.RLock()
					if count == 0 {
						panic("nothing was written")
					}
					if inside != nil {
						inside()
					}
					lock.RUnlock()
				}
				all.Done()
			}()
		}
		all.Wait()
		if count != fibers*each/10 {
			panic("the lock does not exclude")
		}
	})
}

func semaphore() float64 {
	const fibers, permits = 10, 3
	each := scale(200_000, 10_000) / fibers
	return timed(fibers*each, func() {
		taken := make(chan struct{}, permits)
		var all sync.WaitGroup
		all.Add(fibers)
		for range fibers {
			go func() {
				for range each {
					taken <- struct{}{}
					runtime.Gosched()
					<-taken
				}
				all.Done()
			}()
		}
		all.Wait()
	})
}

func sleepers() float64 {
	count := scale(100_000, 1_000)
	nanos := timed(1, func() {
		var all sync.WaitGroup
		all.Add(count)
		for i := range count {
			go func() {
				time.Sleep(time.Duration(1+i%100) * time.Millisecond)
				all.Done()
			}()
		}
		all.Wait()
	})
	return nanos/1e6 - 100
}

func nap(each time.Duration) float64 {
	naps := scale(500, 20)
	start := time.Now()
	for range naps {
		time.Sleep(each)
	}
	return float64((time.Since(start)/time.Duration(naps) - each).Microseconds())
}

// jobs has 50 goroutines put jobs into a queue behind a mutex and a condition variable; four take them out.
func jobs() float64 {
	const clients, workers = 50, 4
	each := scale(100_000, 5_000) / clients
	return timed(clients*each, func() {
		var lock sync.Mutex
		some := sync.NewCond(&lock)
		var queue []chan struct{}
		put := func(job chan struct{}) {
			lock.Lock()
			queue = append(queue, job)
			lock.Unlock()
			some.Signal()
		}
		for range workers {
			go func() {
				for {
					lock.Lock()
					for len(queue) == 0 {
						some.Wait()
					}
					answer := queue[0]
					queue = queue[1:]
					lock.Unlock()
					if answer == nil {
						return
					}
					computeFor(time.Microsecond)
					answer <- struct{}{}
				}
			}()
		}
		var all sync.WaitGroup
		all.Add(clients)
		for range clients {
			go func() {
				for range each {
					answer := make(chan struct{}, 1)
					put(answer)
					<-answer
				}
				all.Done()
			}()
		}
		all.Wait()
		for range workers {
			put(nil)
		}
	})
}

func napCrowd() float64 {
	const atOnce = 50
	count := scale(5_000, 200)
	permits := make(chan struct{}, atOnce)
	start := time.Now()
	var all sync.WaitGroup
	for range count {
		all.Add(1)
		go func() {
			permits <- struct{}{}
			time.Sleep(time.Millisecond)
			<-permits
			all.Done()
		}()
	}
	all.Wait()
	return float64((time.Since(start)/time.Duration(count/atOnce) - time.Millisecond).Microseconds())
}

// tickers has so many goroutines tick every 10 ms, says how late on average, and returns CPU nanoseconds per tick.
func tickers(count int) float64 {
	const period = 10 * time.Millisecond
	ticks := scale(200, 5)
	before := cpu()
	var late atomic.Int64
	var all sync.WaitGroup
	all.Add(count)
	for range count {
		go func() {
			defer all.Done()
			next, ticker := time.Now(), time.NewTicker(period)
			defer ticker.Stop()
			var sum time.Duration
			for range ticks {
				<-ticker.C
				next = next.Add(period)
				sum += time.Since(next)
			}
			late.Add(int64(sum))
		}()
	}
	all.Wait()
	each := float64(ticks * count)
	fmt.Println("late", float64(late.Load())/1e3/each)
	return float64(cpu()-before) / each
}

// cpu is what the process has used.
func cpu() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func cancelAll() float64 {
	count := scale(100_000, 1_000)
	return sample(count, func() time.Duration {
		var all sync.WaitGroup
		all.Add(count)
		ctx, cancel := context.WithCancel(context.Background())
		for range count {
			go func() {
				select {
				case <-ctx.Done():
				case <-time.After(time.Hour):
				}
				all.Done()
			}()
		}
		time.Sleep(500 * time.Millisecond)
		start := time.Now()
		cancel()
		all.Wait()
		return time.Since(start)
	})
}

const (
	times = 50_000
	far   = time.Minute
)

func timeoutReady() float64 {
	return timed(times, func() {
		for range times {
			ctx, cancel := context.WithTimeout(context.Background(), far)
			if ctx.Err() != nil {
				panic("too late")
			}
			cancel()
		}
	})
}

func timeoutWaits() float64 {
	trips := func(wait func(chan struct{})) float64 {
		here, there := make(chan struct{}, 1), make(chan struct{}, 1)
		return sample(2*times, func() time.Duration {
			go func() {
				for range times {
					wait(there)
					here <- struct{}{}
				}
			}()
			start := time.Now()
			for range times {
				there <- struct{}{}
				wait(here)
			}
			return time.Since(start)
		})
	}
	timed := func(wake chan struct{}) {
		timer := time.NewTimer(far)
		select {
		case <-wake:
			timer.Stop()
		case <-timer.C:
			panic("too late")
		}
	}
	return trips(timed) - trips(func(wake chan struct{}) { <-wake })
}

func parked() float64 {
	count := scale(1_000_000, 10_000)
	var arrived atomic.Int32
	never := make(chan struct{})
	stage("begin")
	for range count {
		go func() {
			arrived.Add(1)
			<-never
		}()
	}
	for int(arrived.Load()) < count {
		time.Sleep(5 * time.Millisecond)
	}
	fmt.Println("count", count)
	stage("end")
	return 0
}

func idle() float64 {
	var all sync.WaitGroup
	all.Add(1000)
	for i := range 1000 {
		go func() {
			time.Sleep(time.Duration(1+i%10) * time.Millisecond)
			all.Done()
		}()
	}
	all.Wait()
	stage("idle")
	return 0
}

func blocking() float64 {
	return blockingTasks(func() {
		left := syscall.Timespec{Nsec: 50_000}
		for syscall.Nanosleep(&left, &left) == syscall.EINTR {
		}
	})
}

// Many tasks, each of which calls again and again.
func blockingTasks(call func()) float64 {
	const tasks = 50
	each := scale(5_000, 500) / tasks
	return timed(tasks*each, func() {
		var all sync.WaitGroup
		all.Add(tasks)
		for range tasks {
			go func() {
				for range each {
					call()
				}
				all.Done()
			}()
		}
		all.Wait()
	})
}

func blockingRead() float64 {
	read, remove := smallFile()
	defer remove()
	times := scale(5_000, 500)
	return timed(times, func() {
		for range times {
			read()
		}
	})
}

func blockingReaders() float64 {
	read, remove := smallFile()
	defer remove()
	return blockingTasks(read)
}

// Returns what reads the file, and what removes it.
func smallFile() (func(), func()) {
	const size = 1_000
	file, err := os.CreateTemp("", "volt-peers-")
	if err != nil {
		panic(err)
	}
	if _, err := file.Write(make([]byte, size)); err != nil {
		panic(err)
	}
	read := func() {
		if text, err := os.ReadFile(file.Name()); err != nil || len(text) != size {
			panic("the file is not what it was")
		}
	}
	return read, func() { os.Remove(file.Name()) }
}
