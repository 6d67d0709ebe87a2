package main

import (
	"runtime"
	"sync"
	"time"
)

func channelRoundTrip() float64 {
	trips := scale(50_000, 1_000)
	there, back := make(chan int), make(chan int)
	go func() {
		for i := range there {
			back <- i
		}
	}()
	return timed(trips, func() {
		for i := range trips {
			there <- i
			if <-back != i {
				panic("a wrong answer")
			}
		}
	})
}

func channelStream() float64 {
	items := scale(2_000_000, 20_000)
	return timed(items, func() {
		stream := make(chan int, 128)
		go func() {
			for i := range items {
				stream <- i
			}
			close(stream)
		}()
		count(stream, items)
	})
}

func unbounded() float64 {
	items := scale(2_000_000, 20_000)
	return timed(items, func() {
		stream := make(chan int, 1<<16)
		go func() {
			for i := range items {
				stream <- i
				if i%1000 == 999 {
					runtime.Gosched()
				}
			}
			close(stream)
		}()
		count(stream, items)
	})
}

func count(stream chan int, items int) {
	got := 0
	for range stream {
		got++
	}
	if got != items {
		panic("items were lost")
	}
}

func pipelineShort() float64 { return pipeline(10) }

func pipelineBrief() float64 { return pipeline(2) }

func pipelineLong() float64 { return pipeline(100) }

// pipeline takes as many microseconds in each of its two stages.
func pipeline(micros int) float64 {
	items := scale(50_000/micros, 100)
	stage := func() { computeFor(time.Duration(micros) * time.Microsecond) }
	return timed(items, func() {
		stream := make(chan int, 1)
		go func() {
			for i := range items {
				stage()
				stream <- i
			}
			close(stream)
		}()
		done := make(chan int)
		go func() {
			got := 0
			for range stream {
				stage()
				got++
			}
			done <- got
		}()
		if <-done != items {
			panic("items were lost")
		}
	}) / 1e3
}

func manyProducers() float64 {
	const producers = 64
	each := scale(16_000, 500)
	return timed(producers*each, func() {
		stream := make(chan int, 128)
		var all sync.WaitGroup
		all.Add(producers)
		for range producers {
			go func() {
				for i := range each {
					stream <- i
				}
				all.Done()
			}()
		}
		go func() {
			all.Wait()
			close(stream)
		}()
		count(stream, producers*each)
	})
}

// Four things for fifty goroutines.
func pool() float64 {
	const things, goroutines = 4, 50
	each := scale(1_000_000, 10_000) / goroutines
	return timed(goroutines*each, func() {
		free := make(chan int, things)
		for thing := range things {
			free <- thing
		}
		var all sync.WaitGroup
		all.Add(goroutines)
		for range goroutines {
			go func() {
				for range each {
					free <- <-free
				}
				all.Done()
			}()
		}
		all.Wait()
		if len(free) != things {
			panic("things are missing")
		}
	})
}

func consumers() float64 {
	const sides = 4
	each := scale(250_000, 2_500)
	return timed(sides*each, func() {
		stream := make(chan int, 128)
		counts := make(chan int)
		var all sync.WaitGroup
		all.Add(sides)
		for range sides {
			go func() {
				for i := range each {
					stream <- i
				}
				all.Done()
			}()
			go func() {
				count := 0
				for range stream {
					count++
				}
				counts <- count
			}()
		}
		all.Wait()
		close(stream)
		count := 0
		for range sides {
			count += <-counts
		}
		if count != sides*each {
			panic("items are missing")
		}
	})
}

// question is a number, and where the answer goes.
type question struct {
	number int
	answer chan int
}

func actor() float64 {
	const tasks = 100
	each := scale(200_000, 10_000) / tasks
	return timed(tasks*each, func() {
		questions := make(chan question, 64)
		go func() {
			for question := range questions {
				question.answer <- question.number + 1
			}
		}()
		var all sync.WaitGroup
		all.Add(tasks)
		for range tasks {
			go func() {
				for number := range each {
					answer := make(chan int, 1)
					questions <- question{number, answer}
					if <-answer != number+1 {
						panic("another's answer")
					}
				}
				all.Done()
			}()
		}
		all.Wait()
		close(questions)
	})
}

func selectTwo() float64 {
	each := scale(500_000, 5_000)
	return timed(2*each, func() {
		first, second := make(chan int, 128), make(chan int, 128)
		for _, stream := range []chan int{first, second} {
			go func() {
				for i := range each {
					stream <- i
				}
			}()
		}
		for range 2 * each {
			select {
			case <-first:
			case <-second:
			}
		}
	})
}

func deliver() float64 {
	return inTurn(func(messages chan int) {
		for range messages {
		}
	})
}

func selectTick() float64 {
	return inTurn(func(messages chan int) {
		ticker := time.NewTicker(time.Second)
		for {
			select {
			case <-messages:
			case <-ticker.C:
			}
		}
	})
}

// Nanoseconds for a message to each of a hundred that do so with theirs.
func inTurn(receive func(messages chan int)) float64 {
	rounds := scale(1_000, 10)
	receivers := make([]chan int, 100)
	for i := range receivers {
		receivers[i] = make(chan int, 16)
		go receive(receivers[i])
	}
	return timed(rounds*len(receivers), func() {
		for round := range rounds {
			for _, receiver := range receivers {
				receiver <- round
			}
		}
	})
}

func ring() float64 {
	const fibers = 503
	passes := scale(fibers*100, fibers)
	done := make(chan struct{})
	first := make(chan int)
	token := first
	for i := range fibers {
		next := make(chan int)
		if i == fibers-1 {
			next = first
		}
		go func(token, next chan int) {
			for left := range token {
				if left == 0 {
					done <- struct{}{}
				} else {
					next <- left - 1
				}
			}
		}(token, next)
		token = next
	}
	return timed(passes, func() {
		first <- passes
		<-done
	})
}

func wakeBursts() float64 {
	const fibers, meetings = 1000, 10
	meet := newBarrier(fibers + 1)
	for range fibers {
		go func() {
			for {
				meet.wait()
			}
		}()
	}
	return timed(fibers*meetings, func() {
		for range meetings {
			meet.wait()
		}
	})
}

// barrier is what Go has no type for.
type barrier struct {
	mutex         sync.Mutex
	met           *sync.Cond
	size, arrived int
	meeting       int
}

func newBarrier(size int) *barrier {
	b := &barrier{size: size}
	b.met = sync.NewCond(&b.mutex)
	return b
}

func (b *barrier) wait() {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.arrived++
	if b.arrived == b.size {
		b.arrived = 0
		b.meeting++
		b.met.Broadcast()
		return
	}
	for mine := b.meeting; mine == b.meeting; {
		b.met.Wait()
	}
}

func exchange(pairs int, piece time.Duration) float64 {
	each := scale(4_000, 200) / pairs
	for range 8 {
		go func() {
			for {
				for start := time.Now(); time.Since(start) < piece; {
				}
				runtime.Gosched()
			}
		}()
	}
	return timed(pairs*each, func() {
		var all sync.WaitGroup
		for range pairs {
			all.Add(1)
			go func() {
				defer all.Done()
				there, back := make(chan int, 1), make(chan int, 1)
				go func() {
					for i := range there {
						back <- i
					}
				}()
				for i := range each {
					there <- i
					if <-back != i {
						panic("a wrong answer")
					}
				}
				close(there)
			}()
		}
		all.Wait()
	})
}
