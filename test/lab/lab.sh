#!/usr/bin/env bash
# A real Kubernetes with a real mesh on one Linux machine, without Docker and
# without an image registry. README.md says what runs, how and why.
# shellcheck source-path=SCRIPTDIR
set -euo pipefail

usage() {
	cat >&2 <<'TEXT'
usage: lab.sh COMMAND

  deps                  install and build what is missing (kept in the cache)
  up                    deps, then start the lab; prints its environment
  down                  end everything and leave nothing but the cache
  status                what runs, and whether it is well
  env                   print the environment again

  scene NS KIND         a namespace with the sample API behind a gateway, and a
                        client; KIND is httproute or virtualservice
  clear NS...           remove such namespaces and wait until they are gone
  smoke                 send traffic over both kinds of routes and compare the
                        weights, the client's counts and the proxies' counters

  slow on|off           let istiod wait 8 to 10 s before it tells the proxies
  prom stop|start       stop Prometheus, and start it again with its data
  calls [-agent A] [-since T] ...
                        count API calls in the audit log (-help lists all flags)
  kubectl ...           the lab's own kubectl
TEXT
	exit 2
}

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ROOT=$(cd "$HERE/../.." && pwd)
LAB=${LAB:-${TMPDIR:-/tmp}/shifter-lab}
MARK=shifter-lab
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/shifter-lab

# Addresses. The lab has a network of its own (lib/world.sh); this machine is
# its neighbour on a link of two, and reaches pods and services through the node.
HOST_IP=10.254.254.1
NODE_IP=10.254.254.2
POD_NET=10.244.0.0/24
SERVICE_NET=10.96.0.0/16
DNS_IP=10.96.0.10
PROMETHEUS_URL=http://$NODE_IP:9090

# shellcheck source=lib/world.sh
. "$HERE/lib/world.sh"
# shellcheck source=lib/build.sh
. "$HERE/lib/build.sh"
# shellcheck source=lib/cluster.sh
. "$HERE/lib/cluster.sh"
# shellcheck source=lib/mesh.sh
. "$HERE/lib/mesh.sh"
# shellcheck source=lib/scene.sh
. "$HERE/lib/scene.sh"

say() { printf 'lab: %s\n' "$*" >&2; }
die() {
	say "$*"
	exit 1
}

# step NAME COMMAND... runs a part and tells how long it took.
step() {
	local name=$1 began=$EPOCHREALTIME took
	shift
	"$@"
	took=$(((${EPOCHREALTIME/[.,]/} - ${began/[.,]/}) / 100000))
	printf 'lab: %6d.%d s  %s\n' $((took / 10)) $((took % 10)) "$name" >&2
}

# until_ok SECONDS WHAT COMMAND... tries a command until it succeeds.
until_ok() {
	local end=$((SECONDS + $1)) what=$2
	shift 2
	until "$@" >/dev/null 2>&1; do
		[ "$SECONDS" -lt "$end" ] || die "not in time: $what (logs are in $LAB/log)"
		sleep 0.2
	done
}

kube() { "$CACHE/bin/kubectl" --kubeconfig="$LAB/kubeconfig" "$@"; }

running() { world_alive || die "no lab is up in $LAB"; }

# alone lets one of deps, up and down work at a time. What is started in between
# must not inherit the lock: 9>&-.
alone() {
	mkdir -p "$CACHE"
	exec 9>"$CACHE/lock"
	flock --nonblock 9 || {
		say "another lab.sh is at work: waiting for it"
		flock 9
	}
}

up() {
	[ "$(id -u)" = 0 ] || die "up needs root: it makes namespaces, mounts and a network"
	! world_alive || die "a lab is up already: lab.sh env, or lab.sh down"
	[ ! -e "$LAB" ] || step "remains of an earlier one" down
	deps
	trap '[ $? = 0 ] || say "up failed; logs are in $LAB/log, and lab.sh down removes all"' EXIT
	mkdir -p "$LAB"/{bin,log,run}
	: >"$LAB/$MARK"
	step "the lab's own programs" build_own
	step "namespaces and network" world_up
	step "containerd" containerd_up
	images_import >"$LAB/log/images.log" 2>&1 &
	local importing=$!
	step "etcd and API server" apiserver_up
	step "controllers, scheduler, kubelet, kube-proxy" node_up
	step "images (begun with the API server)" wait "$importing"
	step "custom resources and DNS" dns_up
	step "istiod" istiod_up
	step "Prometheus" prom start
}

# down may come after a crash, or twice: it looks what is there. It deletes no
# folder that up has not made.
down() {
	step "processes, network, mounts" world_down
	[ -e "$LAB" ] || return 0
	[ -f "$LAB/$MARK" ] || die "$LAB is not a lab's folder: give LAB another name"
	step "files" rm -rf --one-file-system "$LAB"
}

status() {
	running
	local name
	for name in etcd apiserver controllers scheduler containerd kubelet proxy pods prometheus; do
		printf '%-12s %s\n' "$name" "$(daemon_alive "$name" && echo runs || echo 'DOES NOT RUN')"
	done
	printf 'memory       %s MiB\n' "$(world_memory)"
	kube get nodes,pods -A
	"$CACHE/bin/istioctl" --kubeconfig="$LAB/kubeconfig" proxy-status
}

environment() {
	cat <<TEXT
export LAB='$LAB'
export KUBECONFIG='$LAB/kubeconfig'
export PROMETHEUS_URL='$PROMETHEUS_URL'
export AUDIT_LOG='$LAB/audit.log'
TEXT
}

[ $# -gt 0 ] || usage
command=$1
shift
case $command in
deps)
	alone
	step "all dependencies" deps
	;;
up)
	alone
	step "up in all" up
	environment
	;;
down)
	alone
	step "down in all" down
	;;
status) status ;;
env)
	running
	environment
	;;
kubectl)
	running
	kube "$@"
	;;
scene | clear | smoke | slow | prom | calls)
	running
	"$command" "$@"
	;;
*) usage ;;
esac
