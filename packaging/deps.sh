#!/bin/bash
# Installs what is missing on this machine for one purpose, and says what it does.
#
#   packaging/deps.sh demo     what `make demo` and `make run` need
#   packaging/deps.sh test     that, and what `make test` needs
#   packaging/deps.sh check    what `make check` needs
#   packaging/deps.sh interop  what `make interop` needs
#
# A thing that is already there, from wherever it came, is left alone; with
# nothing to do no package tool is called and no password is asked. Exit codes:
# 0 all is there now, 1 an installation failed, 2 wrong use or a system on which
# this script cannot install.
set -euo pipefail

say() { printf 'deps: %s\n' "$*"; }
die() { local code=$1; shift; printf 'deps: %s\n' "$@" >&2; exit "$code"; }

# Each need: how to see that it is there | the Debian package | what for.
needs_demo=(
  'command:chromium|chromium|the browser'
  'command:chromium-headless-shell|chromium-headless-shell|the faster browser without a window'
  'command:gnome-keyring-daemon|gnome-keyring|a keyring for the key of the stored sign-ins'
  'library:libsecret-1.so.0|libsecret-1-0|how Chromium reaches that keyring'
  'command:dbus-run-session|dbus|the private bus that the keyring answers on'
  'file:/etc/ssl/certs/ca-certificates.crt|ca-certificates|Go modules come over TLS'
)
needs_test=(
  "${needs_demo[@]}"
  'command:gcc|gcc|the race detector'
  'header:stdlib.h|libc6-dev|the race detector'
)
needs_check=(
  'command:git|git|comparing what go generate makes with what is committed'
  'file:/etc/ssl/certs/ca-certificates.crt|ca-certificates|the tools are Go modules, fetched over TLS'
)
needs_interop=(
  "${needs_demo[@]}"
  'command:npm|npm|the inspector and the conformance suite come from the npm registry'
)

# present KIND:NAME
present() {
  local name=${1#*:}
  case ${1%%:*} in
    command) PATH=$PATH:/usr/sbin:/sbin command -v "$name" >/dev/null 2>&1 ;;
    library) { /sbin/ldconfig -p 2>/dev/null || true; } | grep -qF "$name " ;;
    header) [ -e "/usr/include/$name" ] ;;
    file) [ -s "$name" ] ;;
  esac
}

group=${1:-}
case $group in
  demo) needs=("${needs_demo[@]}") ;;
  test) needs=("${needs_test[@]}") ;;
  check) needs=("${needs_check[@]}") ;;
  interop) needs=("${needs_interop[@]}") ;;
  *) die 2 'usage: packaging/deps.sh demo|test|check|interop' ;;
esac

missing=()
for need in "${needs[@]}"; do
  IFS='|' read -r probe package why <<<"$need"
  present "$probe" && continue
  say "missing: ${probe#*:} ($why): package $package"
  missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  say "nothing to do for $group"
  exit 0
fi

if ! command -v apt-get >/dev/null 2>&1; then
  die 2 'this script installs with apt only, and there is no apt-get here.' \
    "Install what the lines above name with your system's package tool, then run the same command again."
fi

root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null 2>&1 ||
    die 2 'installing needs root, and there is no sudo here.' \
      "As root, run: apt-get install --no-install-recommends ${missing[*]}"
  root=(sudo)
fi

run() {
  say "running: $*"
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive "$@" </dev/null
}

# known: apt has a candidate for every missing package.
known() {
  local p policy
  for p in "${missing[@]}"; do
    policy=$(LC_ALL=C apt-cache policy "$p" 2>/dev/null) || return 1
    [[ $policy == *'  Candidate: '[!\(]* ]] || return 1
  done
}

install=(apt-get install -y -q --no-install-recommends -o Dpkg::Use-Pty=0 "${missing[@]}")
fresh=
if ! known; then
  run apt-get update -q || die 1 'apt-get update failed; its own lines above say why.'
  fresh=yes
  known || die 1 "apt knows no package for some of: ${missing[*]}" \
    'Debian 12 has all of them in main; check /etc/apt/sources.list.d and the bookworm-security suite.'
fi
if ! run "${install[@]}"; then
  [ -z "$fresh" ] || die 1 'apt-get install failed; its own lines above say why.'
  say 'that failed; the package lists may be old, so they are fetched and it is tried once more'
  run apt-get update -q || die 1 'apt-get update failed; its own lines above say why.'
  run "${install[@]}" || die 1 'apt-get install failed; its own lines above say why.'
fi

for need in "${needs[@]}"; do
  IFS='|' read -r probe package _ <<<"$need"
  present "$probe" || die 1 "$package is installed, but ${probe#*:} is still not there."
done
say "installed: ${missing[*]}"
