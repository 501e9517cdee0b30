# shellcheck shell=bash
# The lab's world: namespaces of its own for processes, mounts and network, so
# that nothing it does can stay behind. Its first process is `pause`; when that
# one is killed, the kernel ends every process in it, containers included, and
# with the last of them go the mounts, the bridge, the addresses and the rules of
# iptables. What the kernel shares with the rest of the machine is put back by
# world_down: a few settings, and the containers' control groups.

CGROUP=shifter-lab
LINK=lab-host # this machine's end of the link; its alias says whose it is

# The settings of the kernel that a kubelet changes for the whole machine.
SETTINGS="vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys kernel/keys/root_maxbytes"

# world_pid is the pid of unshare, from the lab's folder; from the link if that
# folder was deleted.
world_pid() {
	cat "$LAB/world.pid" 2>/dev/null ||
		ip -d link show "$LINK" 2>/dev/null | sed -n "s|.*alias shifter-lab in $LAB, pid ||p" | grep .
}

# world_init is the first process, as this machine counts.
world_init() {
	local pid child
	pid=$(world_pid) && [ -n "$pid" ] || return 1
	# A number that was given to another process since is not ours.
	grep -qsxF "$LAB" <(tr '\0' '\n' <"/proc/$pid/cmdline") || return 1
	read -r child <"/proc/$pid/task/$pid/children" || [ -n "$child" ] || return 1
	echo "${child% }"
}

world_alive() { world_init >/dev/null 2>&1; }

world_up() {
	local name init
	[ ! -e "/sys/class/net/$LINK" ] ||
		die "the link $LINK exists already, made by another lab: $(ip -d link show "$LINK" | sed -n 's/.*alias //p')"
	for name in "${POD_NET%/*}" "${SERVICE_NET%/*}" "$NODE_IP"; do
		if ip -4 route show match "$name" | grep -v '^default' | grep -q .; then
			die "this machine has a route to $name already, a network that the lab uses"
		fi
	done
	for name in $SETTINGS; do
		[ -r "/proc/sys/$name" ] && printf '%s %s\n' "$name" "$(cat "/proc/sys/$name")"
	done >"$LAB/settings"

	setsid unshare --mount --net --pid --fork --kill-child --mount-proc --propagation private \
		env -i "$LAB/bin/pause" "$LAB" </dev/null >"$LAB/log/world.log" 2>&1 9>&- &
	echo $! >"$LAB/world.pid"
	disown
	until_ok 10 "a world" world_settled
	init=$(world_init)

	ip link add "$LINK" type veth peer name node netns "$init"
	ip link set "$LINK" alias "shifter-lab in $LAB, pid $(world_pid)"
	ip addr add "$HOST_IP/30" dev "$LINK"
	ip link set "$LINK" up
	# shellcheck disable=SC2016 # expanded inside
	in_world env NODE_IP="$NODE_IP" SERVICE_NET="$SERVICE_NET" LAB="$LAB" bash -euc '
		ip link set lo up
		ip addr add "$NODE_IP/30" dev node
		ip link set node up
		# The node itself must have some way to services before kube-proxy can turn it around; there is no other.
		ip route add "$SERVICE_NET" dev node src "$NODE_IP"
		echo 1 >/proc/sys/net/ipv4/ip_forward
		# From pod to pod by a service: the way back must pass iptables too.
		[ ! -e /proc/sys/net/bridge ] || echo 1 >/proc/sys/net/bridge/bridge-nf-call-iptables
		# Volumes must reach containers: shared, but with nobody outside.
		mount --make-rshared /
		# All that is written to /run and /var goes to the lab: locks, sockets, addresses in use, logs of pods.
		mount -t tmpfs tmpfs /run
		mkdir -p "$LAB/var" "$LAB/var.work"
		mount -t overlay overlay -o "lowerdir=/var,upperdir=$LAB/var,workdir=$LAB/var.work" /var
	'
	ip route add "$POD_NET" via "$NODE_IP"
	ip route add "$SERVICE_NET" via "$NODE_IP"
}

# world_settled: unshare has made the namespaces and runs pause in them.
world_settled() { [ "$(readlink "/proc/$(world_init)/exe")" = "$LAB/bin/pause" ]; }

# in_world COMMAND... runs a command there.
in_world() { nsenter --target "$(world_init)" --mount --net --pid -- "$@"; }

# daemon NAME COMMAND... starts a program there, with a clean environment. The
# pid that is kept is that of nsenter, which waits for the program.
daemon() {
	local name=$1
	shift
	setsid nsenter --target "$(world_init)" --mount --net --pid -- \
		env -i PATH="$PATH:/usr/sbin:/sbin" HOME="$LAB" "$@" </dev/null >>"$LAB/log/$name.log" 2>&1 9>&- &
	echo $! >"$LAB/run/$name.pid"
	disown
}

daemon_alive() {
	local pid
	pid=$(cat "$LAB/run/$1.pid" 2>/dev/null) && [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = nsenter ]
}

# daemon_stop NAME asks a program to end, and waits for it.
daemon_stop() {
	local pid child
	daemon_alive "$1" || return 0
	pid=$(cat "$LAB/run/$1.pid")
	read -r child <"/proc/$pid/task/$pid/children" || true
	kill "$child"
	until_ok 60 "the end of $1" gone "$pid"
	rm "$LAB/run/$1.pid"
}

gone() { [ ! -e "/proc/$1" ]; }

# world_memory is what its processes take in MiB, what they share counted once.
world_memory() {
	# shellcheck disable=SC2016 # expanded inside, where /proc shows the world only
	in_world bash -c 'cat /proc/[0-9]*/smaps_rollup 2>/dev/null' | awk '/^Pss:/ { kib += $2 } END { print int(kib / 1024) }'
}

# world_down may be called in any state: it looks what is there.
world_down() {
	local pid name value
	if world_alive; then
		pid=$(world_pid)
		kill -KILL "$(world_init)"
		until_ok 60 "the end of all processes" gone "$pid"
	fi
	# The kernel takes the link away with the other end's namespace, a moment later.
	if [ -e "/sys/class/net/$LINK" ] && [[ $(ip -d link show "$LINK") == *"shifter-lab in $LAB,"* ]]; then
		ip link delete "$LINK" 2>/dev/null || true
		until_ok 10 "the end of the link" test ! -e "/sys/class/net/$LINK"
	fi
	if [ -d /sys/fs/cgroup ]; then
		find /sys/fs/cgroup -depth -type d -path "*/$CGROUP*" -exec rmdir {} + 2>/dev/null || true
	fi
	if [ -f "$LAB/settings" ]; then
		while read -r name value; do
			[ "$(cat "/proc/sys/$name")" = "$value" ] || echo "$value" >"/proc/sys/$name"
		done <"$LAB/settings"
	fi
}
