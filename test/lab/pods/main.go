// Command pods tells Prometheus which pods there are, over its HTTP service
// discovery and with the labels that its Kubernetes discovery would give:
// Debian's Prometheus is built without that one.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "pods:", err)
		os.Exit(1) //nolint:forbidigo // a program ends with a code
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("pods", flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:9091", "address to serve on")
	api := flags.String("api", "", "URL of the API server")
	ca := flags.String("ca", "", "file with the API server's certificate")
	token := flags.String("token-file", "", "file with a bearer token")
	if err := flags.Parse(args); err != nil {
		return err
	}
	pem, err := os.ReadFile(*ca)
	if err != nil {
		return err
	}
	bearer, err := os.ReadFile(*token)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return fmt.Errorf("no certificate in %s", *ca)
	}
	s := &source{
		api:   *api,
		token: strings.TrimSpace(string(bearer)),
		client: &http.Client{
			Timeout:   5 * time.Second,
			Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}},
		},
	}
	server := &http.Server{Addr: *listen, Handler: s, ReadHeaderTimeout: 5 * time.Second}
	return server.ListenAndServe()
}

// source asks the API server anew for each answer: Prometheus asks every two
// seconds, and keeps its last list when there is no answer.
type source struct {
	api, token string
	client     *http.Client
}

func (s *source) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	pods, err := s.list(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	groups := []group{} // Prometheus takes null for an error
	for _, p := range pods {
		if p.Status.PodIP != "" {
			groups = append(groups, p.group())
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(groups) // an error: Prometheus has gone
}

type pod struct {
	Metadata struct {
		Name        string            `json:"name"`
		Namespace   string            `json:"namespace"`
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Status struct {
		PodIP string `json:"podIP"`
		Phase string `json:"phase"`
	} `json:"status"`
}

func (s *source) list(ctx context.Context) (pods []pod, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.api+"/api/v1/pods", http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	req.Header.Set("User-Agent", "lab-pods")
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the API server answered %s", resp.Status)
	}
	var list struct {
		Items []pod `json:"items"`
	}
	err = json.NewDecoder(resp.Body).Decode(&list)
	return list.Items, err
}

// group is one target of Prometheus with its labels.
type group struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

func (p pod) group() group {
	const prefix = "__meta_kubernetes_pod_"
	labels := map[string]string{
		"__meta_kubernetes_namespace": p.Metadata.Namespace,
		prefix + "name":               p.Metadata.Name,
		prefix + "ip":                 p.Status.PodIP,
		prefix + "phase":              p.Status.Phase,
	}
	for k, v := range p.Metadata.Labels {
		labels[prefix+"label_"+labelName(k)] = v
	}
	for k, v := range p.Metadata.Annotations {
		labels[prefix+"annotation_"+labelName(k)] = v
	}
	return group{Targets: []string{p.Status.PodIP}, Labels: labels}
}

var notOfLabels = regexp.MustCompile(`[^a-zA-Z0-9_]`)

func labelName(s string) string { return notOfLabels.ReplaceAllString(s, "_") }
