# Two hosts on a virtual cable, and medians, for the benchmarks that source this file. Sets LONGHAUL, near, far, device, work;
# the exit trap removes everything.
# shellcheck shell=bash

die() { printf 'bench: %s\n' "$*" >&2; exit 2; }

LONGHAUL=$(readlink -f "${LONGHAUL:-${CARGO_TARGET_DIR:-target}/release/longhaul}" || true)
[ -x "$LONGHAUL" ] || die 'build the release binary first: cargo build --release'
[ "$(id -u)" = 0 ] || die 'network namespaces need root'

export LONGHAUL
# Measurements of benchmark paths do not belong into the user's history.
export LONGHAUL_HISTORY=off
near=lhbench$$near
far=lhbench$$far
device=veth0
work=$(mktemp -d)

clean_up() {
  trap '' INT TERM
  # The process that runs outside of the namespaces.
  if [ -s "$work/pid" ]; then kill "$(cat "$work/pid")" 2>/dev/null || true; fi
  for space in "$near" "$far"; do
    # The namespace contains only the server and processes that a load left behind.
    ip netns pids "$space" 2>/dev/null | xargs -r kill 2>/dev/null || true
    ip netns exec "$space" "$LONGHAUL" shape clear "$device" >/dev/null 2>&1 || true
    ip netns del "$space" 2>/dev/null || true
  done
  rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

in_near() { ip netns exec "$near" "$@"; }
in_far() { ip netns exec "$far" "$@"; }

make_network() {
  ip netns add "$near"
  ip netns add "$far"
  ip link add "$device" netns "$near" type veth peer name "$device" netns "$far"
  ip -n "$near" address add 10.9.0.1/24 dev "$device"
  ip -n "$far" address add 10.9.0.2/24 dev "$device"
  for space in "$near" "$far"; do
    ip -n "$space" link set lo up
    ip -n "$space" link set "$device" up
  done
  in_far "$LONGHAUL" serve >"$work/serve" 2>&1 &
  sleep 0.5
}

# stolen: CPU time that the host of this virtual machine has taken, and all CPU time, in ticks, since the start.
stolen() { awk '/^cpu / { print $9, $2 + $3 + $4 + $5 + $6 + $7 + $8 + $9 }' /proc/stat; }

# undisturbed COMMAND...: its output. A measurement during which the host took more than 1 % of the CPU time is invalid and is
# repeated, up to three runs; the last one counts.
undisturbed() {
  local attempt before after
  for attempt in 1 2 3; do
    before=$(stolen)
    "$@" >"$work/undisturbed" || return
    after=$(stolen)
    if printf '%s %s\n' "$before" "$after" | awk '{ exit ($3 - $1) * 100 > $4 - $2 }'; then break; fi
    [ "$attempt" = 3 ] || printf 'bench: the host took CPU time; measured again\n' >&2
  done
  cat "$work/undisturbed"
}

# median FILE KEYS...: one line for each set of the first KEYS columns, in order of appearance; medians of the others.
median() {
  awk -v keys="$2" '
    {
      key = $1
      for (i = 2; i <= keys; i++) key = key " " $i
      if (!(key in runs)) order[++groups] = key
      runs[key]++
      columns = NF
      for (i = keys + 1; i <= NF; i++) value[key, i, runs[key]] = $i
    }
    function middle(key, column,   n, i, j, held) {
      n = runs[key]
      for (i = 1; i <= n; i++) held[i] = value[key, column, i] + 0
      for (i = 2; i <= n; i++)
        for (j = i; j > 1 && held[j - 1] > held[j]; j--) { swap = held[j]; held[j] = held[j - 1]; held[j - 1] = swap }
      return n % 2 ? held[(n + 1) / 2] : (held[n / 2] + held[n / 2 + 1]) / 2
    }
    END {
      for (g = 1; g <= groups; g++) {
        line = order[g]
        for (i = keys + 1; i <= columns; i++) line = line " " sprintf("%.6f", middle(order[g], i))
        print line
      }
    }' "$1"
}
