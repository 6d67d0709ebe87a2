// Go's workloads, under the names of the cases in ../src/cases, with the same counts. Built and started by the
// program there; each prints "figure" and nanoseconds per operation, or whatever its kind of case asks for.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"runtime"
	"sort"
	"time"
)

var (
	quick = flag.Bool("quick", false, "once and small")
	addr  = flag.String("addr", "127.0.0.1:0", "where a server listens")
)

var cases = map[string]func() float64{
	"yield_many":         yieldMany,
	"spawn_many":         spawnMany,
	"chained_spawn":      chainedSpawn,
	"ping_pong":          pingPong,
	"tree":               tree,
	"channel_round_trip": channelRoundTrip,
	"channel_stream":     channelStream,
	"unbounded":          unbounded,
	"many_producers":     manyProducers,
	"ring":               ring,
	"mutex":              mutex,
	"mutex_held":         mutexHeld,
	"mutex_brief":        mutexBrief,
	"mutex_computing":    mutexComputing,
	"rwlock":             rwlock,
	"rwlock_held":        rwlockHeld,
	"semaphore":          semaphore,
	"consumers":          consumers,
	"pool":               pool,
	"select":             selectTwo,
	"select_tick":        selectTick,
	"deliver":            deliver,
	"actor":              actor,
	"mesh":               mesh,
	"jobs":               jobs,
	"fork_join":          forkJoin,
	"halves":             halves,
	"pipeline_brief":     pipelineBrief,
	"pipeline_short":     pipelineShort,
	"pipeline_long":      pipelineLong,
	"wake_bursts":        wakeBursts,
	"sleepers":           sleepers,
	"nap":                func() float64 { return nap(time.Millisecond) },
	"nap_short":          func() float64 { return nap(100 * time.Microsecond) },
	"nap_crowd":          napCrowd,
	"tickers_100":        func() float64 { return tickers(100) },
	"tickers_1000":       func() float64 { return tickers(1_000) },
	"tickers_10000":      func() float64 { return tickers(10_000) },
	"cancel":             cancelAll,
	"cancel_told":        cancelAll,
	"blocking":           blocking,
	"blocking_read":      blockingRead,
	"blocking_readers":   blockingReaders,
	"timeout_ready":      timeoutReady,
	"timeout_waits":      timeoutWaits,
	"parked":             parked,
	"idle":               idle,
	"echo_1":             echo,
	"echo_4":             echo,
	"echo_100":           echo,
	"echo_1000":          echo,
	"short_connections":  echo,
	"short_acceptors":    acceptors,
	"paced":              echo,
	"computing":          computing,
	"exchange":           func() float64 { return exchange(20, 20*time.Microsecond) },
	"exchange_brief":     func() float64 { return exchange(1, time.Microsecond) },
	"upload":             drop,
	"records":            drop,
	"download":           download,
	"download_8":         download,
	"within":             within,
	"store":              store,
	"http_50":            hello,
	"http_1000":          hello,
	"http_pipelined":     hello,
	"http_idle":          hello,
}

func main() {
	name := flag.String("case", "", "which one")
	workers := flag.Int("workers", 2, "GOMAXPROCS")
	flag.Parse()
	runtime.GOMAXPROCS(*workers)
	body, ok := cases[*name]
	if !ok {
		fmt.Fprintf(os.Stderr, "there is no case %q\n", *name)
		os.Exit(2)
	}
	fmt.Println("figure", body())
}

func scale(full, small int) int {
	if *quick {
		return small
	}
	return full
}

// sample repeats once, which returns how long its operations took, for half a second and three times at least; it
// returns nanoseconds per operation, the median of all but the first third.
func sample(operations int, once func() time.Duration) float64 {
	begin := time.Now()
	var samples []float64
	for n := 0; n == 0 || !*quick && (n < 3 || time.Since(begin) < 250*time.Millisecond); n++ {
		samples = append(samples, float64(once().Nanoseconds())/float64(operations))
	}
	samples = samples[len(samples)/3:]
	sort.Float64s(samples)
	n := len(samples)
	return (samples[(n-1)/2] + samples[n/2]) / 2
}

// computeFor keeps the processor busy for so long.
func computeFor(duration time.Duration) {
	for start := time.Now(); time.Since(start) < duration; {
	}
}

// timed is sample for what is all operations.
func timed(operations int, once func()) float64 {
	return sample(operations, func() time.Duration {
		start := time.Now()
		once()
		return time.Since(start)
	})
}

var input = bufio.NewReader(os.Stdin)

// stage tells the program that measures how far this one is, and waits until it has looked.
func stage(name string) {
	fmt.Println("stage", name)
	if _, err := input.ReadString('\n'); err != nil {
		os.Exit(1)
	}
}
