//go:build e2e

package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

// kubeconfig is what is read of one, and written for another user.
type kubeconfig struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Clusters   []namedCluster `json:"clusters"`
	Users      []namedUser    `json:"users"`
	Contexts   []namedContext `json:"contexts"`
	Current    string         `json:"current-context"`
}

type namedCluster struct {
	Name    string `json:"name"`
	Cluster struct {
		Server   string `json:"server"`
		CA       []byte `json:"certificate-authority-data,omitempty"`
		Insecure bool   `json:"insecure-skip-tls-verify,omitempty"`
		TLSName  string `json:"tls-server-name,omitempty"`
	} `json:"cluster"`
}

type namedUser struct {
	Name string `json:"name"`
	User struct {
		Token     string `json:"token,omitempty"`
		TokenFile string `json:"tokenFile,omitempty"`
		Cert      []byte `json:"client-certificate-data,omitempty"`
		Key       []byte `json:"client-key-data,omitempty"`
	} `json:"user"`
}

type namedContext struct {
	Name    string `json:"name"`
	Context struct {
		Cluster string `json:"cluster"`
		User    string `json:"user"`
	} `json:"context"`
}

// readKubeconfig has kubectl read it: so no YAML need be understood here, and
// files that it names are put in.
func (e environment) readKubeconfig(ctx context.Context) (kubeconfig, error) {
	out, err := e.kube(ctx, "", "config", "view", "--raw", "--minify", "--flatten", "-o", "json")
	if err != nil {
		return kubeconfig{}, err
	}
	var k kubeconfig
	if err := json.Unmarshal([]byte(out), &k); err != nil {
		return k, fmt.Errorf("what kubectl says of KUBECONFIG: %w", err)
	}
	if len(k.Clusters) != 1 || len(k.Users) != 1 {
		return k, fmt.Errorf("KUBECONFIG has %d clusters and %d users in its current context; want one of each", len(k.Clusters), len(k.Users))
	}
	k.APIVersion, k.Kind = "v1", "Config"
	return k, nil
}

// as returns the configuration of another user of the same cluster.
func (k kubeconfig) as(name, token string) kubeconfig {
	u := namedUser{Name: name}
	u.User.Token = token
	c := namedContext{Name: name}
	c.Context.Cluster, c.Context.User = k.Clusters[0].Name, name
	k.Users, k.Contexts, k.Current = []namedUser{u}, []namedContext{c}, name
	return k
}

// at returns the configuration of the same user at another address.
func (k kubeconfig) at(server string) kubeconfig {
	c := k.Clusters[0]
	c.Cluster.Server = server
	k.Clusters = []namedCluster{c}
	return k
}

// write keeps the configuration in a file: JSON is YAML too.
func (k kubeconfig) write(path string) error {
	b, err := json.Marshal(k)
	if err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o600)
}

// cluster is a small client of an API server. It goes by the name e2e, so that
// the audit log can tell its calls from shifter's.
type cluster struct {
	base, token string
	http        *http.Client
}

func newCluster(k kubeconfig) (*cluster, error) {
	c, u := k.Clusters[0].Cluster, k.Users[0].User
	conf := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.TLSName, InsecureSkipVerify: c.Insecure}
	if len(c.CA) > 0 {
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(c.CA) {
			return nil, errors.New("KUBECONFIG: the certificate authority is no PEM")
		}
	}
	token := u.Token
	if token == "" && u.TokenFile != "" {
		b, err := os.ReadFile(u.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("KUBECONFIG: %w", err)
		}
		token = strings.TrimSpace(string(b))
	}
	switch {
	case len(u.Cert) > 0:
		pair, err := tls.X509KeyPair(u.Cert, u.Key)
		if err != nil {
			return nil, fmt.Errorf("KUBECONFIG: the client certificate: %w", err)
		}
		conf.Certificates = []tls.Certificate{pair}
	case token == "":
		return nil, errors.New("KUBECONFIG: this suite knows tokens and client certificates, and the user has neither")
	}
	transport := &http.Transport{
		TLSClientConfig: conf, MaxIdleConnsPerHost: 32, IdleConnTimeout: time.Minute,
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSHandshakeTimeout: 10 * time.Second,
	}
	return &cluster{base: strings.TrimRight(c.Server, "/"), token: token, http: &http.Client{Transport: transport}}, nil
}

// answerError is an answer that was no success.
type answerError struct {
	what string
	code int
	body string
}

func (e answerError) Error() string { return fmt.Sprintf("%s: %d %s", e.what, e.code, e.body) }

func isMissing(err error) bool {
	var a answerError
	return errors.As(err, &a) && a.code == http.StatusNotFound
}

// do makes a call and decodes the answer, if that is wanted.
func (c *cluster) do(ctx context.Context, method, path, body string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	resp, err := c.send(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if into == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		return err
	}
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}

// send sends a request, and returns its answer if that is a success.
func (c *cluster) send(ctx context.Context, method, path, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "e2e")
	req.Header.Set("Accept", "application/json")
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		b, _ := io.ReadAll(io.LimitReader(resp.Body, 500)) // what came is enough for a message
		return nil, errors.Join(answerError{method + " " + path, resp.StatusCode, strings.TrimSpace(string(b))}, resp.Body.Close())
	}
	return resp, nil
}

// missing reports that an object is not there.
func (c *cluster) missing(ctx context.Context, path string) (bool, error) {
	err := c.do(ctx, "GET", path, "", nil)
	return isMissing(err), err
}

// watch reports every change of the objects under a path until ctx ends. It
// begins with what is there, and begins anew when a watch ends: so the same
// object may be reported twice.
func (c *cluster) watch(ctx context.Context, path, selector string, seen func(event, json.RawMessage) error) error {
	for again := time.NewTimer(0); ; again.Reset(time.Second) {
		select {
		case <-ctx.Done():
			return nil
		case <-again.C:
		}
		err := c.watchOnce(ctx, path, selector, seen)
		if errors.Is(err, errUnread) {
			return err
		}
	}
}

// event says what happened to an object.
type event string

const deleted event = "DELETED"

// errUnread is an object that the suite cannot read: no second try would.
var errUnread = errors.New("the object cannot be read")

func (c *cluster) watchOnce(ctx context.Context, path, selector string, seen func(event, json.RawMessage) error) error {
	// From version 0: with what the API server has at hand, which any etcd can serve.
	resp, err := c.send(ctx, "GET", path+"?watch=1&resourceVersion=0&labelSelector="+selector, "")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	for dec := json.NewDecoder(resp.Body); ; {
		var e struct {
			Type   event           `json:"type"`
			Object json.RawMessage `json:"object"`
		}
		if err := dec.Decode(&e); err != nil {
			return err
		}
		switch e.Type {
		case "ADDED", "MODIFIED", deleted:
			if err := seen(e.Type, e.Object); err != nil {
				return fmt.Errorf("%w: %s: %w", errUnread, path, err)
			}
		case "ERROR":
			return fmt.Errorf("watching %s: %s", path, e.Object)
		}
	}
}
