// Package e2e runs releases on a real cluster with a real mesh, as a pipeline
// would: it starts `shifter serve`, posts releases to it, makes things go wrong,
// and judges by what others saw: a client that counts every request, the API
// server, and its audit log.
//
// The tests take minutes and need a cluster, so they are behind the build tag
// e2e; `make e2e` makes one (test/lab) and runs them. They know nothing of the
// code inside: what they decode is what is documented for users.
//
// Read a scenario in scenarios_test.go first. play_test.go sets the stage for it,
// history_test.go looks on, and checks_test.go judges.
//
// What they read from the environment:
//
//	KUBECONFIG      the cluster; it needs Istio, the Gateway API, a Prometheus that
//	                scrapes as test/lab/manifests/prometheus.yml says, and the
//	                images that the manifests there name
//	PROMETHEUS_URL  its Prometheus
//	AUDIT_LOG       the API server's audit log, to count calls
//	LAB             set where the cluster is a lab of test/lab/lab.sh
//	KUBECTL         kubectl to use, if not the lab's or the one in PATH
//	E2E_ALLOW_SKIP  1: skip what the cluster has no means for; else that fails
package e2e
