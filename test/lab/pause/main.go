// Command pause is the first process of a pod, and of the lab itself: it keeps
// their namespaces open, takes in orphans so that none stays a zombie, and ends
// when it is told to.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGCHLD)
	for s := range signals {
		if s != syscall.SIGCHLD {
			return
		}
		// One signal may stand for many children.
		for {
			if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 && err != syscall.EINTR {
				break
			}
		}
	}
}
