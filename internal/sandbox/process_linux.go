package sandbox

import "syscall"

// ownGroup keeps a Ctrl-C on the terminal from the pods, which are ended in
// order by Stop, and ends them if this process dies without an order.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
