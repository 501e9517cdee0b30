# shellcheck shell=bash
# The cluster: one node, whose programs run in the lab's world. What is unusual
# here is explained in README.md.

ctr() { in_world "$(command -v ctr)" -a "$LAB/containerd.sock" -n k8s.io "$@"; }

containerd_up() {
	mkdir -p "$LAB/cni"
	cat >"$LAB/cni/10-bridge.conflist" <<JSON
{"cniVersion": "0.4.0", "name": "lab", "plugins": [{
  "type": "bridge", "bridge": "lab0", "isGateway": true, "hairpinMode": true, "ipMasq": false,
  "ipam": {"type": "host-local", "ranges": [[{"subnet": "$POD_NET"}]], "routes": [{"dst": "0.0.0.0/0"}]}
}]}
JSON
	cat >"$LAB/containerd.toml" <<TOML
version = 2
root = "$LAB/containerd/root"
state = "$LAB/containerd/state"
[grpc]
  address = "$LAB/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:dev"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$LAB/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
TOML
	daemon containerd containerd --config "$LAB/containerd.toml"
	until_ok 30 "containerd" ctr version
}

# images_import brings in the images that are kept, and makes those of this
# tree's programs. go-api's two differ in the version that they say they are.
images_import() {
	local version
	mkdir -p "$LAB/images/go-api" "$LAB/images/hit"
	cp "$LAB/bin/go-api" "$LAB/images/go-api/"
	cp "$LAB/bin/hit" "$LAB/images/hit/"
	for version in v1 v2; do
		"$LAB/bin/image" -tag "localhost/go-api:$version" -root "$LAB/images/go-api" -entry /go-api \
			-env "GO_API_VERSION_NAME=$version" -o "$LAB/images/go-api-$version.tar"
	done
	"$LAB/bin/image" -tag localhost/hit:dev -root "$LAB/images/hit" -entry /hit -o "$LAB/images/hit.tar"
	local image
	for image in "$CACHE"/images/*.tar "$LAB"/images/*.tar; do
		ctr images import "$image"
	done
	rm -rf "$LAB/images"
}

apiserver_up() {
	cd "$LAB" || return
	openssl genrsa -out sa.key 2048 2>/dev/null
	openssl rsa -in sa.key -pubout -out sa.pub 2>/dev/null
	(umask 077 && openssl rand -hex 24 >token)
	(umask 077 && echo "$(cat token),admin,admin,system:masters" >tokens.csv)

	# Disks need not keep what is thrown away: no fsync.
	daemon etcd etcd --data-dir "$LAB/etcd" --unsafe-no-fsync --quota-backend-bytes 4294967296 \
		--listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
		--listen-peer-urls http://127.0.0.1:2380 --log-level warn
	until_ok 30 "etcd" in_world curl -fs http://127.0.0.1:2379/health

	# One line a call, without bodies: enough to count who called what.
	cat >audit-policy.yaml <<'YAML'
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Metadata}]
YAML
	daemon apiserver "$CACHE/bin/kube-apiserver" --etcd-servers=http://127.0.0.1:2379 \
		--advertise-address="$NODE_IP" --secure-port=6443 --cert-dir="$LAB/certs" --service-cluster-ip-range="$SERVICE_NET" \
		--service-account-issuer=https://kubernetes.default.svc \
		--service-account-key-file="$LAB/sa.pub" --service-account-signing-key-file="$LAB/sa.key" \
		--token-auth-file="$LAB/tokens.csv" --authorization-mode=RBAC --allow-privileged=true \
		--kubelet-preferred-address-types=InternalIP \
		--audit-policy-file="$LAB/audit-policy.yaml" --audit-log-path="$LAB/audit.log" \
		--audit-log-maxsize=2000 --audit-log-maxbackup=1
	until_ok 60 "the API server's certificate" test -s "$LAB/certs/apiserver.crt"
	(umask 077 && cat >kubeconfig) <<YAML
apiVersion: v1
kind: Config
clusters:
  - name: lab
    cluster: {server: "https://$NODE_IP:6443", certificate-authority-data: $(base64 -w0 certs/apiserver.crt)}
users:
  - name: admin
    user: {token: $(cat token)}
contexts:
  - name: lab
    context: {cluster: lab, user: admin}
current-context: lab
YAML
	until_ok 60 "the API server" kube get --raw /readyz
}

node_up() {
	daemon controllers "$CACHE/bin/kube-controller-manager" --kubeconfig="$LAB/kubeconfig" --leader-elect=false \
		--service-account-private-key-file="$LAB/sa.key" --use-service-account-credentials=true \
		--root-ca-file="$LAB/certs/apiserver.crt" --kube-api-qps=100 --kube-api-burst=200
	daemon scheduler "$CACHE/bin/kube-scheduler" --kubeconfig="$LAB/kubeconfig" --leader-elect=false

	echo "nameserver $DNS_IP" >"$LAB/resolv.conf"
	cat >"$LAB/kubelet.yaml" <<YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
cgroupDriver: cgroupfs
cgroupRoot: /$CGROUP
cgroupsPerQOS: false
enforceNodeAllocatable: []
failCgroupV1: false
failSwapOn: false
containerRuntimeEndpoint: unix://$LAB/containerd.sock
volumePluginDir: $LAB/kubelet/plugins
podLogsDir: $LAB/log/pods
resolvConf: $LAB/resolv.conf
clusterDNS: ["$DNS_IP"]
clusterDomain: cluster.local
evictionHard: {nodefs.available: "1%", imagefs.available: "1%"}
imageGCHighThresholdPercent: 100
maxPods: 250
YAML
	daemon kubelet "$CACHE/bin/kubelet" --kubeconfig="$LAB/kubeconfig" --config="$LAB/kubelet.yaml" \
		--root-dir="$LAB/kubelet" --hostname-override=node1 --node-ip="$NODE_IP"
	cat >"$LAB/proxy.yaml" <<YAML
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: iptables
clientConnection: {kubeconfig: $LAB/kubeconfig}
clusterCIDR: $POD_NET
hostnameOverride: node1
conntrack: {maxPerCore: 0}
YAML
	daemon proxy "$CACHE/bin/kube-proxy" --config="$LAB/proxy.yaml"
	until_ok 60 "the node" node_ready
}

node_ready() { kube get node node1 | grep -q ' Ready '; }

dns_up() {
	kube apply --server-side -f "$CACHE/mesh/gateway-api" >/dev/null
	kube apply --server-side -f "$CACHE/mesh/charts/charts/base/files/crd-all.gen.yaml" >/dev/null
	kube apply -f "$HERE/manifests/dns.yaml" >/dev/null
}
