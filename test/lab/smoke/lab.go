package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// lab is the way to the cluster, the client and Prometheus.
type lab struct {
	kubectl, kubeconfig, prometheus string
}

func (l lab) kube(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, l.kubectl, append([]string{"--kubeconfig=" + l.kubeconfig}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimSpace(string(out)), nil
}

// query sums a PromQL expression's series by one of their labels.
func (l lab) query(ctx context.Context, expr, label string) (map[string]int64, error) {
	var answer struct {
		Data struct {
			Result []struct {
				Metric map[string]string `json:"metric"`
				Value  [2]any            `json:"value"`
			} `json:"result"`
		} `json:"data"`
	}
	if err := call(ctx, http.MethodGet, l.prometheus+"/api/v1/query?query="+url.QueryEscape(expr), "", &answer); err != nil {
		return nil, err
	}
	values := map[string]int64{}
	for _, r := range answer.Data.Result {
		f, err := strconv.ParseFloat(fmt.Sprint(r.Value[1]), 64)
		if err != nil {
			return nil, err
		}
		values[r.Metric[label]] += int64(f)
	}
	return values, nil
}

// call makes an HTTP call and decodes the answer, if that is wanted.
func call(ctx context.Context, method, to, body string, into any) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, to, strings.NewReader(body))
	if err != nil {
		return err
	}
	client := http.Client{}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s", method, to, resp.Status)
	}
	if into == nil {
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(into)
}
