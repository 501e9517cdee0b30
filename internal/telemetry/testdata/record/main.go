// record runs a real Prometheus over a few fake targets and writes its answers
// to the queries that the eyes ask, with the question, into testdata/recorded.
// The truth is known, since the targets follow a script.
//
//	go run ./internal/telemetry/testdata/record -prometheus /usr/bin/prometheus
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/shifter-dev/shifter/internal/release"
	"github.com/shifter-dev/shifter/internal/telemetry"
)

// A gateway pod and an application pod, by tick of two seconds. Twelve are
// scraped. The canary's cluster is born at tick 3 with requests, its 5xx at
// tick 5; the second gateway starts again at tick 7; the second application pod
// is gone from tick 9 on.
func gateway(pod, tick int) string {
	since := tick
	if pod == 1 && tick >= 7 {
		since = tick - 6 // starts again from 0
	}
	var b strings.Builder
	cluster := func(name string, ok, bad, active int) {
		total := ok + bad + active
		fmt.Fprintf(&b, "envoy_cluster_upstream_rq_total{cluster_name=%q} %d\n", name, total)
		fmt.Fprintf(&b, "envoy_cluster_upstream_rq_active{cluster_name=%q} %d\n", name, active)
		for class, n := range map[string]int{"2xx": ok, "5xx": bad} {
			if n > 0 {
				fmt.Fprintf(&b, "envoy_cluster_upstream_rq{cluster_name=%q,response_code_class=%q} %d\n", name, class, n)
				fmt.Fprintf(&b, "envoy_cluster_upstream_rq{cluster_name=%q,response_code=%q} %d\n", name, class[:1]+"00", n)
			}
		}
	}
	cluster("outbound|80||echo-v1.demo.svc.cluster.local", 900*since, 0, 3)
	if tick >= 3 {
		cluster("outbound|80||echo-v2.demo.svc.cluster.local", 100*since, max(since-4, 0), 1)
	}
	cluster("outbound|80||other.demo.svc.cluster.local", 7*since, 0, 0)
	return b.String()
}

func app(_, tick int) string {
	return fmt.Sprintf("http_requests_total{code=\"200\",method=\"get\"} %d\nhttp_requests_in_flight 2\n", 10*tick)
}

type targets struct {
	tick atomic.Int64
	sd   []map[string]any
	gone string
}

func (t *targets) serve(ctx context.Context, pod string, n int, page func(int, int) string) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, page(n, int(t.tick.Load())))
	})}
	go srv.Serve(ln)
	context.AfterFunc(ctx, func() { srv.Close() })
	t.sd = append(t.sd, map[string]any{
		"targets": []string{ln.Addr().String()},
		"labels":  map[string]string{"namespace": "demo", "pod": pod},
	})
	return ln.Addr().String()
}

func main() {
	bin := flag.String("prometheus", "prometheus", "binary")
	out := flag.String("out", "internal/telemetry/testdata/recorded", "directory")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()

	t := &targets{}
	t.tick.Store(1)
	t.serve(ctx, "gw-0", 0, gateway)
	t.serve(ctx, "gw-1", 1, gateway)
	t.serve(ctx, "echo-v2-a", 0, app)
	gone := t.serve(ctx, "echo-v2-b", 1, app)
	dir, err := os.MkdirTemp("", "record")
	check(err)
	defer os.RemoveAll(dir)
	sd, _ := json.Marshal(t.sd)
	check(os.WriteFile(filepath.Join(dir, "sd.json"), sd, 0o644))
	conf := "global: {scrape_interval: 2s}\nscrape_configs:\n- job_name: pods\n  file_sd_configs: [{files: [" + dir + "/sd.json], refresh_interval: 1s}]\n"
	check(os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(conf), 0o644))
	cmd := exec.CommandContext(ctx, *bin, "--config.file="+dir+"/prometheus.yml", "--storage.tsdb.path="+dir+"/data",
		"--web.listen-address=127.0.0.1:19090", "--query.max-samples=400", "--log.level=error")
	cmd.Stderr = os.Stderr
	check(cmd.Start())
	defer cmd.Wait()
	defer cmd.Process.Signal(os.Interrupt)

	const base = "http://127.0.0.1:19090"
	for ; ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
		if _, body := get(base, `count(up == 1)`, time.Now()); bytes.Contains(body, []byte(`"4"]`)) {
			break
		}
	}
	start := time.Now()
	var since time.Time
	for tick := 1; tick <= 12; tick++ {
		t.tick.Store(int64(tick))
		if tick == 2 {
			since = time.Now()
		}
		if tick == 9 { // leaves service discovery, as a pod that ends
			kept, _ := json.Marshal(t.sd[:3])
			check(os.WriteFile(filepath.Join(dir, "sd.json.new"), kept, 0o644))
			check(os.Rename(filepath.Join(dir, "sd.json.new"), filepath.Join(dir, "sd.json")))
			log.Print("gone: ", gone)
		}
		time.Sleep(time.Until(start.Add(time.Duration(tick) * 2 * time.Second)))
	}
	now := time.Now().Truncate(time.Millisecond)

	ask := release.Ask{Since: since.UTC().Truncate(time.Millisecond), Now: now.UTC(), Pods: [2][]string{nil, {"echo-v2-a", "echo-v2-b"}}}
	ask.Binding.Metrics = release.MetricsRef{Source: "mesh"}
	ask.Binding.Tracks = [2]release.BoundTrack{
		{Namespace: "demo", Service: "echo-v1", Port: 80}, {Namespace: "demo", Service: "echo-v2", Port: 80},
	}
	eyes, err := telemetry.New([]telemetry.Source{{Name: "mesh", URL: base, Provider: "envoy", Scrape: 2 * time.Second}}, nil)
	check(err)
	defer eyes.Close()
	queries, err := eyes.Queries(ask)
	check(err)
	write := func(name string, v []byte) { check(os.WriteFile(filepath.Join(*out, name), v, 0o644)) }
	for _, q := range queries {
		metric, _, _ := strings.Cut(q.PromQL, "{")
		code, body := get(base, q.PromQL, now)
		log.Print(code, " ", q.PromQL)
		write("envoy/"+metric+".json", body)
	}
	// The same without the matcher that keeps the two label sets apart.
	_, body := get(base, strings.Replace(queries[1].PromQL, `,response_code_class!=""`, "", 1), now)
	write("envoy-both-label-sets.json", body)
	_, body = get(base, `http_requests_total{namespace="demo",pod=~"echo-v2-a|echo-v2-b"}[40s]`, now)
	write("app.json", body)
	code, body := get(base, `up{[`, now)
	write(fmt.Sprintf("error-%d.json", code), body)
	code, body = get(base, `{__name__=~".+"}[5m]`, now)
	write(fmt.Sprintf("error-%d.json", code), body)
	q, _ := json.MarshalIndent(ask, "", "  ")
	write("envoy/ask.json", append(q, '\n'))
	r, err := eyes.Look(ctx, ask)
	check(err)
	j, _ := json.MarshalIndent(r, "", "  ")
	fmt.Println(string(j))
}

func get(base, q string, at time.Time) (int, []byte) {
	resp, err := http.PostForm(base+"/api/v1/query", url.Values{"query": {q}, "time": {fmt.Sprintf("%.3f", float64(at.UnixMilli())/1000)}})
	if err != nil {
		return 0, nil
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	check(err)
	return resp.StatusCode, body
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
