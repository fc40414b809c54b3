# Sourced by the scripts of the checks: runs a command under a label, with its duration.

run() {
  local label=$1 started=$SECONDS
  shift
  printf '\n==> %s\n' "$label"
  "$@" || { printf '\nfailed: %s\n' "$label" >&2; exit 1; }
  printf '    %s s\n' $((SECONDS - started))
}
