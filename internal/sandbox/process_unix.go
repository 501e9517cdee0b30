//go:build unix && !linux

package sandbox

import "syscall"

// ownGroup keeps a Ctrl-C on the terminal from the pods, which are ended in
// order by Stop.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
