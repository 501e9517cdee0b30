# shellcheck shell=bash
# The mesh: istiod, and Prometheus with what tells it which pods there are.

istiod_up() {
	# Envoy as its own project builds it has none of Istio's extensions, and
	# rejects a configuration that names them: so istiod must not send any.
	#  PILOT_ENABLE_ALPN_FILTER          istio.alpn
	#  PILOT_ENABLE_METADATA_EXCHANGE    istio.metadata_exchange, peer_metadata
	#  telemetry.enabled                 istio.stats, and with it istio_requests_total
	"$CACHE/bin/istioctl" --kubeconfig="$LAB/kubeconfig" install -y --manifests "$CACHE/mesh/charts" --set profile=minimal \
		--set hub="$HUB" --set tag="$TAG" --set values.global.imagePullPolicy=Never \
		--set values.pilot.resources.requests.cpu=50m --set values.pilot.resources.requests.memory=128Mi \
		--set values.pilot.autoscaleEnabled=false \
		--set values.global.proxy.resources.requests.cpu=10m --set values.global.proxy.resources.requests.memory=64Mi \
		--set values.telemetry.enabled=false \
		--set values.pilot.env.PILOT_ENABLE_ALPN_FILTER=false --set values.pilot.env.PILOT_ENABLE_METADATA_EXCHANGE=false \
		>"$LAB/log/istioctl.log" 2>&1
	kube -n kube-system rollout status deploy/coredns --timeout=60s >/dev/null
}

prom() {
	case ${1:-} in
	start)
		! daemon_alive prometheus || return 0
		daemon_alive pods || daemon pods "$LAB/bin/pods" -listen 127.0.0.1:9091 \
			-api "https://$NODE_IP:6443" -ca "$LAB/certs/apiserver.crt" -token-file "$LAB/token"
		daemon prometheus prometheus --config.file="$HERE/manifests/prometheus.yml" --storage.tsdb.path="$LAB/prometheus" \
			--storage.tsdb.retention.time=12h --web.listen-address="${PROMETHEUS_URL#http://}" --log.level=warn
		until_ok 30 "Prometheus" curl -fs "$PROMETHEUS_URL/-/ready"
		;;
	stop) daemon_stop prometheus ;;
	*) usage ;;
	esac
}

# slow on: istiod gathers changes for 8 s of quiet, 10 s at the most, before it
# pushes (its default is 100 ms), so routes and endpoints reach the proxies late.
slow() {
	local old
	old=$(istiod_pods)
	case ${1:-} in
	on) kube -n istio-system set env deploy/istiod PILOT_DEBOUNCE_AFTER=8s PILOT_DEBOUNCE_MAX=10s ;;
	off) kube -n istio-system set env deploy/istiod PILOT_DEBOUNCE_AFTER- PILOT_DEBOUNCE_MAX- ;;
	*) usage ;;
	esac
	kube -n istio-system rollout status deploy/istiod --timeout=120s
	[ "$(istiod_pods)" != "$old" ] || return 0
	# Proxies stay with the old one until it is gone, and then come over.
	# shellcheck disable=SC2086 # names
	kube -n istio-system wait --for=delete $old --timeout=120s
	until_ok 120 "the proxies at the new istiod" proxies_connected
}

istiod_pods() { kube -n istio-system get pods -l app=istiod --field-selector=status.phase=Running -o name | sort; }

# proxies_connected: istiod serves as many proxies as there are running.
proxies_connected() {
	local ip want have
	ip=$(kube -n istio-system get pods -l app=istiod --field-selector=status.phase=Running -o jsonpath='{.items[*].status.podIP}')
	want=$(kube get pods -A --field-selector=status.phase=Running -o json |
		grep -cE '"gateway.networking.k8s.io/gateway-name":|"sidecar.istio.io/status":' || true)
	have=$(curl -fs "http://$ip:15014/metrics" | awk '/^pilot_xds\{/ { n += $2 } END { print n + 0 }')
	[ "$have" -ge "$want" ]
}

calls() { "$LAB/bin/audit" -log "$LAB/audit.log" "$@"; }
