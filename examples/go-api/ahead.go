package main

import (
	"net"
	"sync/atomic"
	"time"
)

// Proxies open connections ahead of the requests that will use them: a busy Envoy
// opens one for a request that another connection, free again by then, serves.
// net/http starts the timeout of the first request's header when it accepts the
// connection, so after ReadHeaderTimeout it would close a connection that has done
// nothing wrong, under the hands of a proxy that may just be sending on it: the
// same race as with IdleTimeout, see newServer. So until its first byte a
// connection may idle like every other, and the timeout of the header starts then,
// as net/http does itself for all requests but the first.

// aheadListener accepts such connections.
type aheadListener struct {
	net.Listener

	idle time.Duration
}

// Accept implements net.Listener.
func (l aheadListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &aheadConn{Conn: c, idle: l.idle}, nil
}

// aheadConn puts off the deadlines that are set before its first byte has come.
type aheadConn struct {
	net.Conn

	idle time.Duration
	used atomic.Bool
	// header is how long the first header may take, in nanoseconds from its first
	// byte.
	header atomic.Int64
}

// SetReadDeadline implements net.Conn.
func (c *aheadConn) SetReadDeadline(t time.Time) error {
	if left := time.Until(t); !c.used.Load() && left > 0 {
		c.header.Store(int64(left))
		t = time.Now().Add(c.idle)
	}
	return c.Conn.SetReadDeadline(t)
}

// Read implements net.Conn.
func (c *aheadConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && c.used.CompareAndSwap(false, true) && err == nil {
		err = c.Conn.SetReadDeadline(time.Now().Add(time.Duration(c.header.Load())))
	}
	return n, err
}
