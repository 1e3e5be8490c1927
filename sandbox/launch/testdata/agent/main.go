// Command agent is the hostile payload of the launcher's tests: each word of
// its arguments is one thing that it does. It says "ready" when the attack is
// on, and goes on with it until it is ended.
package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const socket = "/run/proctor/supervisor.sock"

func main() {
	attack, ok := map[string]func(){
		"wait": wait, "forks": forks, "memory": memory, "output": output, "disk": disk, "sockets": sockets, "questions": questions,
		"daemon": daemon, "writer": writer, "pass": func() {}, "doors": doors,
	}[os.Args[1]]
	if !ok {
		fmt.Println("unknown attack")
		os.Exit(99)
	}
	attack()
}

func ready() { fmt.Println("ready") }

// wait never ends by itself.
func wait() {
	ready()
	for {
		_ = syscall.Pause()
	}
}

// forks starts copies of itself, which do the same, for as long as it can.
func forks() {
	if len(os.Args) == 2 {
		ready()
	}
	for {
		cmd := exec.Command("/proc/self/exe", "forks", "more")
		_ = cmd.Start()
	}
}

// memory takes all of it again and again: the kernel kills the child that does.
func memory() {
	if len(os.Args) > 2 {
		var all [][]byte
		for {
			b := bytes.Repeat([]byte{1}, 16<<20)
			all = append(all, b)
			runtime.KeepAlive(all)
		}
	}
	ready()
	for {
		cmd := exec.Command("/proc/self/exe", "memory", "more")
		_ = cmd.Run()
	}
}

func output() {
	ready()
	b := bytes.Repeat([]byte("all work and no play\n"), 50_000)
	for {
		_, _ = os.Stdout.Write(b)
	}
}

// disk fills every place that it can write.
func disk() {
	dir, _ := os.Getwd()
	b := make([]byte, 1<<20)
	fill := func(dir string, most int) {
		f, err := os.Create(filepath.Join(dir, "filler"))
		for i := 0; err == nil && i < most; i++ {
			_, err = f.Write(b)
		}
	}
	fill("/tmp", 1<<20)
	ready()
	for {
		fill(dir, 64)
		fill("/tmp", 1<<20)
	}
}

// sockets holds as many connections as it can, each with half a question, and
// replaces those that the other side closes.
func sockets() {
	var first sync.WaitGroup
	for i := range 1500 {
		first.Add(1)
		dialled := sync.OnceFunc(first.Done)
		go func() {
			for {
				c, err := net.Dial("unix", socket)
				if err != nil {
					continue
				}
				dialled()
				if i%2 == 0 {
					_, _ = c.Write([]byte("GET /v1/session HTTP/1.1\r\nHost: s"))
				}
				_, _ = c.Read(make([]byte, 1))
				_ = c.Close()
			}
		}()
	}
	first.Wait()
	ready()
	select {}
}

// questions asks without end, until the record is full and beyond.
func questions() {
	ready()
	for {
		c, err := net.Dial("unix", socket)
		if err != nil {
			continue
		}
		answer := make([]byte, 4096)
		for err == nil {
			if _, err = c.Write([]byte("GET /v1/session HTTP/1.1\r\nHost: s\r\n\r\n")); err == nil {
				_, err = c.Read(answer)
			}
		}
		_ = c.Close()
	}
}

// daemon leaves a grandchild in a session of its own, which ignores every
// signal that can be ignored and writes into the product.
func daemon() {
	cmd := exec.Command("/proc/self/exe", "writer", os.Args[2])
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		fmt.Println(err)
		os.Exit(99)
	}
	for {
		if _, err := os.Stat("written-" + os.Args[2]); err == nil {
			os.Exit(0)
		}
	}
}

func writer() {
	if len(os.Args) == 3 { // fork once more, so that the parent is gone
		cmd := exec.Command("/proc/self/exe", "writer", os.Args[2], "again")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		_ = cmd.Start()
		return
	}
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT)
	for i := 0; ; i++ {
		_ = os.WriteFile("written-"+os.Args[2], strconv.AppendInt(nil, int64(i)+time.Now().UnixNano(), 10), 0o644)
	}
}
