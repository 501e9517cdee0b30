package telemetry

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"time"
)

// Access is how to be let in by a source. Secrets are in files, which are read
// again whenever they are used: they may be renewed at any time. No secret gets
// into an error, a log or a reading.
type Access struct {
	TokenFile string // a bearer token
	BasicFile string // user:password
	CAFile    string // certificates to trust in place of the system's
	CertFile  string // our own certificate
	KeyFile   string // and its key
	// Tenant is the value of TenantHeader, by which Mimir, Cortex, Loki and
	// Thanos tell tenants apart.
	Tenant       string
	TenantHeader string // X-Scope-OrgID unless it is said
}

// DefaultTenantHeader is the header that names a tenant.
const DefaultTenantHeader = "X-Scope-OrgID"

// accessError says which file is at fault and never what is in it.
type accessError string

func (e accessError) Error() string { return string(e) }

var (
	headerName  = regexp.MustCompile(`^[A-Za-z0-9-]+$`)
	headerValue = regexp.MustCompile(`^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$`)
)

// check reads everything once, so that a wrong file is an error at the start.
func (a Access) check(ownClient bool) error {
	switch {
	case a.TokenFile != "" && a.BasicFile != "":
		return errors.New("it has a token and a password: give one of them")
	case (a.CertFile == "") != (a.KeyFile == ""):
		return errors.New("a certificate and its key belong together, and one of them is missing")
	case ownClient && a.CAFile+a.CertFile != "":
		return errors.New("certificates cannot be given to a client that is made elsewhere")
	case a.Tenant != "" && !headerValue.MatchString(a.Tenant):
		return errors.New("its tenant cannot be written into a header")
	case a.TenantHeader != "" && !headerName.MatchString(a.TenantHeader):
		return errors.New("the name of its tenant header is none")
	}
	if err := a.admit(http.Header{}); err != nil {
		return err
	}
	_, err := a.tls()
	return err
}

// admit writes the headers that let a request in.
func (a Access) admit(h http.Header) error {
	if a.TokenFile != "" {
		token, err := secretIn(a.TokenFile, "bearer token")
		if err != nil {
			return err
		}
		h.Set("Authorization", "Bearer "+token)
	}
	if a.BasicFile != "" {
		pair, err := secretIn(a.BasicFile, "user:password")
		if err != nil {
			return err
		}
		user, password, ok := bytes.Cut([]byte(pair), []byte(":"))
		if !ok {
			return accessError(fmt.Sprintf("the file %q holds no user:password", a.BasicFile))
		}
		r := http.Request{Header: h}
		r.SetBasicAuth(string(user), string(password))
	}
	if a.Tenant != "" {
		name := a.TenantHeader
		if name == "" {
			name = DefaultTenantHeader
		}
		h.Set(name, a.Tenant)
	}
	return nil
}

// mostSecret is more than any secret is long.
const mostSecret = 64 << 10

func secretIn(file, what string) (string, error) {
	b, err := readFile(file, what)
	if err != nil {
		return "", err
	}
	b = bytes.TrimSpace(b)
	if !headerValue.Match(b) {
		return "", accessError(fmt.Sprintf("the file %q holds no %s", file, what))
	}
	return string(b), nil
}

func readFile(file, what string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, accessError(fmt.Sprintf("the file %q with the %s cannot be opened", file, what))
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, mostSecret+1))
	if err != nil || len(b) > mostSecret {
		return nil, accessError(fmt.Sprintf("the file %q with the %s cannot be read, or is too long", file, what))
	}
	return b, nil
}

// tls reads the certificates as they are now.
func (a Access) tls() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if a.CAFile != "" {
		pem, err := readFile(a.CAFile, "certificates to trust")
		if err != nil {
			return nil, err
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, accessError(fmt.Sprintf("the file %q holds no certificate", a.CAFile))
		}
	}
	if a.CertFile == "" {
		return c, nil
	}
	cert, err := readFile(a.CertFile, "certificate")
	if err != nil {
		return nil, err
	}
	key, err := readFile(a.KeyFile, "key")
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil { // the error may quote the files
		return nil, accessError(fmt.Sprintf("the files %q and %q are no certificate and its key", a.CertFile, a.KeyFile))
	}
	c.Certificates = []tls.Certificate{pair}
	return c, nil
}

// dialTLS opens each connection with the certificates of that moment.
func (a Access) dialTLS(timeout time.Duration) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := a.tls()
		if err != nil {
			return nil, err
		}
		d := tls.Dialer{NetDialer: &net.Dialer{Timeout: timeout}, Config: c}
		return d.DialContext(ctx, network, addr)
	}
}

// admitted adds the headers of an access to each request.
type admitted struct {
	next   http.RoundTripper
	access Access
}

func (a admitted) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if err := a.access.admit(r.Header); err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, err
	}
	return a.next.RoundTrip(r)
}

func (a admitted) CloseIdleConnections() {
	if i, ok := a.next.(idler); ok {
		i.CloseIdleConnections()
	}
}
