# shellcheck shell=bash
# Namespaces with the sample API in them, as tests use them.

# scene NS KIND: both tracks on v2 with four pods each, the primary with v1 in
# its history, all traffic on the canary, and a client that sends nothing yet.
scene() {
	local ns=${1:-} kind=${2:-} name
	case $ns:$kind in
	?*:httproute | ?*:virtualservice) ;;
	*) usage ;;
	esac
	kube create namespace "$ns" >/dev/null
	# The primary's first revision: v1, without pods.
	first_of "$HERE/manifests/tracks.yaml" | sed 's/go-api:v2/go-api:v1/; s/replicas: 4/replicas: 0/' | kube apply -n "$ns" -f - >/dev/null
	kube wait -n "$ns" deploy/checkout --for='jsonpath={.metadata.annotations.deployment\.kubernetes\.io/revision}=1' --timeout=30s >/dev/null
	for name in gateway tracks "$kind" hit; do
		kube apply -n "$ns" -f "$HERE/manifests/$name.yaml" >/dev/null
	done
	kube wait -n "$ns" gateway/gw --for=condition=Programmed --timeout=120s >/dev/null
	for name in checkout checkout-canary gw-istio hit; do
		kube rollout status -n "$ns" "deploy/$name" --timeout=120s >/dev/null
	done
}

first_of() { awk '/^---/ { exit } { print }' "$1"; }

clear() { kube delete namespace --wait --timeout=180s --ignore-not-found "$@"; }

smoke() {
	local failed=0
	step "two scenes" smoke_scenes
	step "traffic" "$LAB/bin/smoke" -kubectl "$CACHE/bin/kubectl" -kubeconfig "$LAB/kubeconfig" -prometheus "$PROMETHEUS_URL" \
		smoke-route:httproute smoke-service:virtualservice || failed=1
	step "their removal" clear smoke-route smoke-service >/dev/null
	return "$failed"
}

smoke_scenes() {
	local one
	scene smoke-route httproute &
	one=$!
	scene smoke-service virtualservice
	wait "$one"
}
