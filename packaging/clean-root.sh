#!/bin/bash
# Proves that a fresh Debian 12 needs nothing but git, Go and make: builds a
# bare root in a temporary directory, clones HEAD into it, and runs there what a
# newcomer runs. Needs root, mmdebstrap and unshare; takes the Debian mirrors,
# proxies and certificates that this machine uses. Nothing stays behind.
#
#   packaging/clean-root.sh [TARGET…]     default: demo test
set -euo pipefail

say() { printf 'clean-root: %s\n' "$*"; }
die() { printf 'clean-root: %s\n' "$@" >&2; exit 2; }

# --- inside: started again by the outer half in namespaces of its own ---------
if [ "${1:-}" = --inside ]; then
  root=$2 goroot=$3 modcache=$4; shift 4
  mount --make-rprivate /
  mount -t proc proc "$root/proc"
  mount --rbind /dev "$root/dev"
  mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm" 2>/dev/null || true
  mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
  mount --bind "$goroot" "$root/usr/local/go"
  mount -o remount,bind,ro "$root/usr/local/go"
  # The toolchain that go.mod names, and the modules: read what this machine has,
  # write to a layer that goes away.
  if [ -d "$modcache" ]; then
    mkdir -p "$root/var/modcache"
    mount -t tmpfs tmpfs "$root/var/modcache"
    mkdir "$root/var/modcache/up" "$root/var/modcache/work"
    mount -t overlay overlay -o "lowerdir=$modcache,upperdir=$root/var/modcache/up,workdir=$root/var/modcache/work" "$root/go/pkg/mod" 2>/dev/null ||
      say 'no overlay here; the modules are fetched anew'
  fi
  failed=0
  for target in "$@"; do
    say "make $target"
    start=$SECONDS
    if chroot "$root" /bin/bash -c 'cd /root/browserhost && exec make --no-print-directory "$1"' make "$target" </dev/null; then
      say "make $target: passed in $((SECONDS - start)) s"
    else
      say "make $target: FAILED with exit code $? after $((SECONDS - start)) s"
      failed=1
      break
    fi
    # Nothing may be alive now: this namespace holds only what make started. What
    # is dying gets a moment; a zombie is no process any more.
    for try in 1 2 3 4 5 6 7 8 9 10; do
      left=
      for dir in "$root"/proc/[0-9]*; do
        pid=${dir##*/}
        [ "$pid" != 1 ] || continue
        grep -q '^State:[[:space:]]*[^Z]' "$dir/status" 2>/dev/null || continue
        left+="$pid $(tr '\0' ' ' <"$dir/cmdline" 2>/dev/null | cut -c1-120)"$'\n'
      done
      [ -n "$left" ] || break
      [ "$try" = 10 ] || sleep 0.5
    done
    if [ -n "$left" ]; then
      say "make $target left processes behind:"
      printf '%s' "$left"
      failed=1
      break
    fi
  done
  exit "$failed"
fi

# --- outside ------------------------------------------------------------------
export GOTOOLCHAIN=go1.27.3
cd "$(dirname "$0")/.."
[ "$(id -u)" -eq 0 ] || die 'this needs root (namespaces, mounts and chroot).'
for tool in mmdebstrap unshare git go; do
  command -v "$tool" >/dev/null 2>&1 || die "there is no $tool here; on Debian: apt-get install mmdebstrap util-linux git"
done
[ $# -gt 0 ] || set -- demo test
[ -z "$(git status --porcelain)" ] || say 'note: the work tree has changes; what is checked is HEAD'

began=$SECONDS
work=$(mktemp -d -t browserhost-clean-root.XXXXXX)
root=$work/root
cleanup() {
  trap - EXIT INT TERM
  # The mounts belong to the inner namespace and went with it; should one be
  # left all the same, it is taken off before anything is deleted.
  while read -r _ at _; do
    case $at in "$work"/*) umount -l "$at" ;; esac
  done < <(tac /proc/self/mounts)
  if grep -q " $work/" /proc/self/mounts; then
    say "something is still mounted under $work; it stays there" >&2
  else
    rm -rf --one-file-system "$work"
  fi
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# The Debian mirrors that this machine uses; with none known, mmdebstrap's own.
sources=$work/sources.list
apt-get indextargets --format '$(REPO_URI) $(CODENAME) $(SUITE) $(ORIGIN) $(RELEASE)' 'Created-By: Packages' 2>/dev/null |
  awk '$4 == "Debian" && $2 ~ /^bookworm/ { print "deb " $1 " " $5 " main" }' | sort -u >"$sources" || true
mirror=()
[ ! -s "$sources" ] || mirror=("$sources")
# Its proxies, if it has any.
apt-config dump 2>/dev/null | grep -E '^(Acquire::(http|https)::(Proxy|Proxy-Auto-Detect|CaInfo)|Acquire::Retries)' >"$work/apt.conf" || true

say 'a bare Debian 12 with ca-certificates, git and make'
mmdebstrap --quiet --variant=minbase --include=ca-certificates,git,make \
  --aptopt="$work/apt.conf" bookworm "$root" "${mirror[@]}"
# What this machine trusts beyond Debian's own certificates.
if compgen -G '/usr/local/share/ca-certificates/*.crt' >/dev/null; then
  cp /usr/local/share/ca-certificates/*.crt "$root/usr/local/share/ca-certificates/"
  chroot "$root" update-ca-certificates >/dev/null 2>&1
fi
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
grep -qs '[[:space:]]localhost' "$root/etc/hosts" || echo '127.0.0.1 localhost' >>"$root/etc/hosts"
say "that took $((SECONDS - began)) s"

git clone --quiet --no-local . "$root/root/browserhost"
mkdir -p "$root/usr/local/go" "$root/go/pkg/mod"

pass=(HOME=/root GOPATH=/go PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 CI=true)
for v in GOPROXY GOSUMDB GONOSUMDB GONOPROXY GOPRIVATE; do
  pass+=("$v=$(go env $v)")
done
for v in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY; do
  [ -z "${!v:-}" ] || pass+=("$v=${!v}")
done

code=0
env -i "${pass[@]}" unshare --mount --pid --fork --kill-child \
  /bin/bash "$PWD/packaging/clean-root.sh" --inside "$root" "$(GOTOOLCHAIN=local go env GOROOT)" "$(go env GOMODCACHE)" "$@" || code=$?
if [ "$code" -eq 0 ]; then
  say "verdict: passed (make $*), $((SECONDS - began)) s in all"
else
  say "verdict: FAILED, $((SECONDS - began)) s in all"
fi
exit "$code"
