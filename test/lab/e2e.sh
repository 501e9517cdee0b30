#!/usr/bin/env bash
# Runs test/e2e on a lab that is made for it and removed at its end, whatever
# happens. A lab that is up already is used and left up; so is another cluster,
# where KUBECONFIG and PROMETHEUS_URL are both set (test/e2e/doc.go says what it
# needs).
#
#   E2E_RUN=TestKillAtHalf   only the scenarios that match
#   KEEP=1                   leave the lab up
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
lab=$here/lab.sh
made= # set when the lab is ours to remove
group=

finish() {
	local code=$?
	trap '' INT TERM
	if [ -n "$group" ] && kill -0 -- "-$group" 2>/dev/null; then
		# It gets the time to remove what it has made in the cluster.
		kill -INT -- "-$group" 2>/dev/null || true
		for _ in $(seq 120); do
			kill -0 -- "-$group" 2>/dev/null || break
			sleep 1
		done
		kill -KILL -- "-$group" 2>/dev/null || true
	fi
	if [ -n "$made" ] && [ "${KEEP:-}" = 1 ]; then
		echo "e2e: the lab is left up; test/lab/lab.sh env says where, test/lab/lab.sh down ends it" >&2
	elif [ -n "$made" ]; then
		"$lab" down || code=1
	fi
	exit "$code"
}
trap finish EXIT
trap 'exit 130' INT TERM

if [ -n "${KUBECONFIG:-}" ] && [ -n "${PROMETHEUS_URL:-}" ]; then
	echo "e2e: on the cluster of KUBECONFIG" >&2
elif variables=$("$lab" env 2>/dev/null); then
	echo "e2e: on the lab that is up" >&2
	eval "$variables"
else
	made=1
	variables=$("$lab" up)
	eval "$variables"
fi

# In a process group of its own, so that nothing of it can stay behind.
cd "$here/../.."
set -m
"${GO:-go}" test -tags e2e -count=1 -v -parallel 3 -timeout 40m ${E2E_RUN:+-run "$E2E_RUN"} ./test/e2e </dev/null &
group=$!
set +m
wait "$group"
