package kube

import "time"

// Hasten sets the wait after a failure, for mirrors that begin from now on.
func (m *Mirrors) Hasten(d time.Duration) { m.pause = d }
