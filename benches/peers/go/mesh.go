package main

// mesh is a thousand actors that send to each other at random.
func mesh() float64 {
	const actors, underWay = 1000, 100
	hops := scale(200_000, 10_000) / underWay
	all := make([]chan int, actors)
	for i := range all {
		all[i] = make(chan int, underWay)
	}
	done := make(chan struct{}, underWay)
	for actor, inbox := range all {
		go func(inbox chan int, choice uint64) {
			for left := range inbox {
				if left == 0 {
					done <- struct{}{}
					continue
				}
				choice ^= choice << 13
				choice ^= choice >> 7
				choice ^= choice << 17
				all[choice%actors] <- left - 1
			}
		}(inbox, uint64(actor)*77+13)
	}
	return timed(hops*underWay, func() {
		for i := range underWay {
			all[i] <- hops
		}
		for range underWay {
			<-done
		}
	})
}
