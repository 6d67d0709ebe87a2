package main

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"time"
)

func listen() net.Listener {
	listener, err := net.Listen("tcp", *addr)
	if err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
	return listener
}

// Go sets TCP_NODELAY by itself. Each piece that is read, with a buffer of that size, goes to answer.
func serve(size int, answer func(conn net.Conn, piece []byte) error) float64 {
	listener := listen()
	for {
		conn, err := listener.Accept()
		if err != nil {
			panic(err)
		}
		go func() {
			defer conn.Close()
			buffer := make([]byte, size)
			for {
				n, err := conn.Read(buffer)
				if err != nil || answer(conn, buffer[:n]) != nil {
					return
				}
			}
		}()
	}
}

// 64 accept from one listener, each serving what it has accepted.
func acceptors() float64 {
	listener := listen()
	serve := func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				panic(err)
			}
			buffer := make([]byte, 4096)
			for {
				n, err := conn.Read(buffer)
				if err != nil {
					break
				}
				if _, err := conn.Write(buffer[:n]); err != nil {
					break
				}
			}
			conn.Close()
		}
	}
	for range 63 {
		go serve()
	}
	serve()
	return 0
}

func echo() float64 {
	return serve(4096, func(conn net.Conn, piece []byte) error {
		_, err := conn.Write(piece)
		return err
	})
}

func computing() float64 {
	for range 8 {
		go func() {
			for {
				for start := time.Now(); time.Since(start) < 200*time.Microsecond; {
				}
				runtime.Gosched()
			}
		}()
	}
	return echo()
}

func drop() float64 {
	return serve(64<<10, func(net.Conn, []byte) error { return nil })
}

func download() float64 {
	answer := bytes.Repeat([]byte("v"), 1<<20)
	return serve(1, func(conn net.Conn, _ []byte) error {
		_, err := conn.Write(answer)
		return err
	})
}

func hello() float64 {
	http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		io.WriteString(w, "Hello, World!")
	})
	panic(http.Serve(listen(), nil))
}
