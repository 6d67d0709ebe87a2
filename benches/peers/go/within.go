package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"sync"
)

// accept serves each connection of a listener of its own, whose address it returns.
func accept(serve func(conn net.Conn)) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				panic(err)
			}
			go func() {
				defer conn.Close()
				serve(conn)
			}()
		}
	}()
	return listener.Addr().String()
}

// clients connects so many at the same time, and waits for them.
func clients(count int, address string, client func(number int, conn net.Conn)) {
	var all sync.WaitGroup
	all.Add(count)
	for number := range count {
		go func() {
			conn, err := net.Dial("tcp", address)
			if err != nil {
				panic(err)
			}
			client(number, conn)
			conn.Close()
			all.Done()
		}()
	}
	all.Wait()
}

func within() float64 {
	const connections = 4
	messages := scale(2_000, 100)
	address := accept(func(conn net.Conn) {
		buffer := make([]byte, 4096)
		for {
			n, err := conn.Read(buffer)
			if err != nil {
				return
			}
			conn.Write(buffer[:n])
		}
	})
	return timed(connections*messages, func() {
		clients(connections, address, func(_ int, conn net.Conn) {
			buffer := make([]byte, 64)
			for range messages {
				conn.Write(buffer)
				if _, err := io.ReadFull(conn, buffer); err != nil {
					panic(err)
				}
			}
		})
	})
}

func store() float64 {
	const count, atOnce, keys = 8, 32, 500
	batches := scale(600, 20)
	var lock sync.RWMutex
	values := map[string]string{}
	address := accept(func(conn net.Conn) {
		lines, answers := bufio.NewReader(conn), bufio.NewWriter(conn)
		for {
			line, err := lines.ReadSlice('\n')
			if err != nil {
				return
			}
			verb, rest, _ := bytes.Cut(bytes.TrimRight(line, "\n"), []byte(" "))
			key, value, isSet := bytes.Cut(rest, []byte(" "))
			switch {
			case string(verb) == "GET" && !isSet:
				lock.RLock()
				value, ok := values[string(key)]
				lock.RUnlock()
				if !ok {
					value = "-"
				}
				answers.WriteString(value)
				answers.WriteByte('\n')
			case string(verb) == "SET" && isSet:
				lock.Lock()
				values[string(key)] = string(value)
				lock.Unlock()
				answers.WriteString("OK\n")
			default:
				answers.WriteString("ERROR\n")
			}
			if lines.Buffered() == 0 {
				answers.Flush()
			}
		}
	})
	return timed(count*atOnce*batches, func() {
		clients(count, address, func(number int, conn net.Conn) {
			answers := bufio.NewReader(conn)
			var out []byte
			for batch := range batches {
				out = out[:0]
				for line := range atOnce {
					key := (number*31 + batch*7 + line) % keys
					if (batch+line)%5 == 0 {
						out = fmt.Appendf(out, "SET key%d value-of-%d\n", key, batch)
					} else {
						out = fmt.Appendf(out, "GET key%d\n", key)
					}
				}
				conn.Write(out)
				for range atOnce {
					if _, err := answers.ReadSlice('\n'); err != nil {
						panic(err)
					}
				}
			}
		})
	})
}
