package telemetry_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shifter-dev/shifter/internal/telemetry"
)

func file(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// keyPair makes a certificate that is signed by its own key.
func keyPair(t *testing.T) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "shifter"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	kder, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	text := func(kind string, b []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}))
	}
	return text("CERTIFICATE", der), text("PRIVATE KEY", kder)
}

func TestSecretsAreReadAgainWhenTheyAreRenewed(t *testing.T) {
	w := newWorld(t, ends("p1", "echo-v1", "200", "0 7"))
	var got []string
	h := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		got = append(got, r.Header.Get("Authorization")+" "+r.Header.Get("X-Scope-Orgid"))
		w.mu.Unlock()
		w.ServeHTTP(rw, r)
	})
	token := file(t, "token", "first\n")
	e := eyesOn(t, h, func(s *telemetry.Source) { s.Access = telemetry.Access{TokenFile: token, Tenant: "team-a"} })
	for _, want := range []string{"first", "second"} {
		if err := os.WriteFile(token, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		got = nil
		if r := look(t, e, ask(tick(0), tick(1.1))); r.Trouble != "" {
			t.Fatal(r.Trouble)
		}
		for _, g := range got {
			if g != "Bearer "+want+" team-a" {
				t.Errorf("sent %q", got)
			}
		}
	}
	if err := os.Remove(token); err != nil {
		t.Fatal(err)
	}
	r := look(t, e, ask(tick(0), tick(1.1)))
	if c, _ := telemetry.ClassOf(r.Trouble); c != telemetry.Auth || !strings.Contains(r.Trouble, "bearer token cannot be opened") {
		t.Errorf("trouble %q", r.Trouble)
	}
}

func TestBasicCredentialsAndAnOtherTenantHeaderAreSent(t *testing.T) {
	w := newWorld(t, ends("p1", "echo-v1", "200", "0 7"))
	h := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if u, p, ok := r.BasicAuth(); !ok || u != "eyes" || p != "pass:word" || r.Header.Get("Thanos-Tenant") != "a b" {
			t.Errorf("headers %v", r.Header)
		}
		w.ServeHTTP(rw, r)
	})
	e := eyesOn(t, h, func(s *telemetry.Source) {
		s.Access = telemetry.Access{BasicFile: file(t, "basic", "eyes:pass:word\n"), Tenant: "a b", TenantHeader: "THANOS-TENANT"}
	})
	if r := look(t, e, ask(tick(0), tick(1.1))); r.Trouble != "" {
		t.Error(r.Trouble)
	}
}

func TestCertificatesOfBothSidesAreUsed(t *testing.T) {
	cert, key := keyPair(t)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(cert))
	w := newWorld(t, ends("p1", "echo-v1", "200", "0 7"))
	srv := httptest.NewUnstartedServer(w)
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}
	srv.StartTLS()
	defer srv.Close()
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}))
	for name, c := range map[string]struct {
		access telemetry.Access
		class  telemetry.Class
	}{
		"both":                  {telemetry.Access{CAFile: file(t, "ca", ca), CertFile: file(t, "cert", cert), KeyFile: file(t, "key", key)}, ""},
		"not ours":              {telemetry.Access{CAFile: file(t, "ca", ca)}, telemetry.Auth},
		"not the authority":     {telemetry.Access{CertFile: file(t, "cert", cert), KeyFile: file(t, "key", key)}, telemetry.Auth},
		"an authority of other": {telemetry.Access{CAFile: file(t, "ca", cert), CertFile: file(t, "cert", cert), KeyFile: file(t, "key", key)}, telemetry.Auth},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := telemetry.New([]telemetry.Source{{Name: "mesh", URL: srv.URL, Provider: "sandbox", Scrape: scrape, Access: c.access}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			r := look(t, e, ask(tick(0), tick(1.1)))
			if class, _ := telemetry.ClassOf(r.Trouble); class != c.class {
				t.Errorf("trouble %q, want class %q", r.Trouble, c.class)
			}
		})
	}
}

func TestAWrongAccessIsAnErrorAtTheStart(t *testing.T) {
	cert, key := keyPair(t)
	_, other := keyPair(t)
	for name, c := range map[string]struct {
		access telemetry.Access
		client http.RoundTripper
		want   string
	}{
		"no token file":         {access: telemetry.Access{TokenFile: "/nowhere/token"}, want: `the file "/nowhere/token" with the bearer token cannot be opened`},
		"an empty token":        {access: telemetry.Access{TokenFile: file(t, "f", "\n")}, want: "holds no bearer token"},
		"a token of two lines":  {access: telemetry.Access{TokenFile: file(t, "f", secret+"\r\nX: y")}, want: "holds no bearer token"},
		"a token without end":   {access: telemetry.Access{TokenFile: file(t, "f", strings.Repeat(secret, 10000))}, want: "too long"},
		"two ways in":           {access: telemetry.Access{TokenFile: file(t, "f", "x"), BasicFile: file(t, "f", "u:p")}, want: "give one of them"},
		"a password alone":      {access: telemetry.Access{BasicFile: file(t, "f", secret)}, want: "holds no user:password"},
		"no certificate":        {access: telemetry.Access{CAFile: file(t, "f", secret)}, want: "holds no certificate"},
		"a key alone":           {access: telemetry.Access{KeyFile: file(t, "f", key)}, want: "one of them is missing"},
		"another's key":         {access: telemetry.Access{CertFile: file(t, "f", cert), KeyFile: file(t, "f", other)}, want: "are no certificate and its key"},
		"a key that is none":    {access: telemetry.Access{CertFile: file(t, "f", cert), KeyFile: file(t, "f", secret)}, want: "are no certificate and its key"},
		"a tenant of two lines": {access: telemetry.Access{Tenant: "a\r\nX: y"}, want: "tenant cannot be written"},
		"a header that is none": {access: telemetry.Access{Tenant: "a", TenantHeader: "X Y"}, want: "tenant header is none"},
		"another's client":      {access: telemetry.Access{CAFile: file(t, "f", cert)}, client: direct{}, want: "made elsewhere"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := telemetry.New([]telemetry.Source{{Name: "mesh", URL: "https://p", Provider: "envoy", Access: c.access, Client: c.client}}, nil)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), secret) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

// Whatever goes wrong, no secret is told to anybody but the source.
func TestSecretsAreNeverTold(t *testing.T) {
	var logged bytes.Buffer
	answers := []http.HandlerFunc{
		say(401, secret), say(503, secret), say(200, secret),
		say(200, `{"status":"error","errorType":"bad_data","error":"`+secret+`"}`),
		say(200, `{"status":"success","warnings":["half"],"data":{"resultType":"matrix","result":[]}}`),
		func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/?"+secret, http.StatusTemporaryRedirect)
		},
	}
	for _, access := range []telemetry.Access{{TokenFile: file(t, "f", secret)}, {BasicFile: file(t, "f", "user:"+secret)}} {
		for i, h := range answers {
			srv := httptest.NewServer(h)
			source := telemetry.Source{Name: "mesh", URL: srv.URL, Provider: "envoy", Access: access}
			e, err := telemetry.New([]telemetry.Source{source}, slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug})))
			if err != nil {
				t.Fatal(err)
			}
			r := look(t, e, ask(tick(0), tick(1)))
			qs, err := e.Queries(ask(tick(0), tick(1)))
			told := string(mustJSON(t, r)) + string(mustJSON(t, qs)) + string(mustJSON(t, source)) + logged.String()
			if err != nil || r.Trouble == "" || strings.Contains(told, secret) {
				t.Errorf("answer %d: %v\n%s", i, err, told)
			}
			e.Close()
			srv.Close()
		}
	}
	if logged.Len() == 0 {
		t.Error("nothing was logged: the test shows nothing")
	}
}
