#!/usr/bin/env bash
# Check for the packages that building and running Weir need, and install missing ones if permitted.
# Usage: stack/setup.sh [--tests | --test-packages | --peers | --containers]
#   --tests also installs what the tests need: packages, and the peers that Debian lacks.
#   --test-packages and --peers are its two halves; the Makefile builds the peers beside the rest.
#   --containers also installs the engine of `make test-compose`.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
packages=() missing=()
extra=() # missing, and needed for a part alone: left out where nobody may install them
need() { # need COMMAND PACKAGE...: the Debian packages that provide the command
  command -v "$1" >/dev/null 2>&1 && return
  missing+=("$1")
  packages+=("${@:2}")
}
at_least() { # at_least HAVE WANT: versions in order
  [[ $(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1) == "$2" ]]
}

export PATH=$PATH:/usr/sbin:/sbin
need make make
need cc gcc
need c++ g++
need cmake cmake
need pkg-config pkg-config
pkg-config --exists openssl 2>/dev/null || { missing+=(openssl); packages+=(libssl-dev); }
# python-ldap is compiled.
pkg-config --exists ldap libsasl2 2>/dev/null || { missing+=(ldap); packages+=(libldap-dev libsasl2-dev); }
[[ -f $(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))' 2>/dev/null)/Python.h ]] || {
  missing+=(Python.h)
  packages+=(python3-dev)
}
need javac openjdk-17-jdk-headless
need mvn maven
live() { # live COMMAND PACKAGE: what only live traffic in the demo takes, as root
  command -v "$1" >/dev/null 2>&1 || { extra+=("$1"); packages+=("$2"); }
}
live ip iproute2
live ethtool ethtool
live ping iputils-ping
live sysctl procps
need python3 python3 python3-venv
python3 -c 'import venv, ensurepip' 2>/dev/null || { missing+=(python3-venv); packages+=(python3-venv); }
# Optional libraries, left out if Debian has none: libpcap compiles filter sets, nDPI identifies applications.
optional() { # optional TEST PACKAGE: the package, if the test fails and the package exists
  eval "$1" >/dev/null 2>&1 || ! apt-cache show "$2" >/dev/null 2>&1 || { extra+=("$2"); packages+=("$2"); }
}
# Not grep -q: it may exit before ldconfig has written everything, which fails the pipe.
optional 'ldconfig -p | grep libpcap.so.0.8' libpcap0.8
optional 'pkg-config --exists libndpi' libndpi-dev
least_rust=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' "$here/capture/Cargo.toml")
rust=$(cargo --version 2>/dev/null | cut -d' ' -f2 || true)
if [[ -z $rust ]] || ! at_least "$rust" "$least_rust"; then
  missing+=("cargo $least_rust or newer")
  # Debian packages a current Rust under these names beside that of the release.
  if apt-cache show cargo-web >/dev/null 2>&1; then packages+=(cargo-web rustc-web); else packages+=(rustup); fi
fi
if [[ ${1:-} == --tests || ${1:-} == --test-packages ]]; then
  need chromium chromium
  need tshark tshark
  need tcpdump tcpdump
  need nfcapd nfdump
  need softflowd softflowd
  need pmacctd pmacct
  need nginx nginx-light
  need slapd slapd
  need ldapadd ldap-utils
  need openssl openssl
  # The formatter and the linter of cargo-web.
  optional 'command -v cargo-fmt' rustfmt-web
  optional 'command -v cargo-clippy' rust-web-clippy
fi
if [[ ${1:-} == --containers ]]; then
  need podman podman buildah netavark aardvark-dns
  need runc runc
  need iptables iptables
  need debootstrap debootstrap
fi

# Builds peers that Debian lacks, or has in another version, with a Go of its own: Debian's is too old. Hashes pin both.
build_peers() {
  local folder=$here/.weir/peers sources=$here/tests/peers/go
  local stamp
  stamp=$(cat "$sources"/go.{mod,sum} "$here/stack/supply/go.txt" | sha256sum)
  [[ $(cat "$folder/.stamp" 2>/dev/null) == "$stamp" ]] && return
  echo "building peers: goflow2, GoBGP (a minute)"
  local work
  work=$(mktemp -d)
  # The modules that Go downloads into it are hundreds of megabytes: remove them all, even after a failed
  # build.
  trap "rm -rf '$work'" EXIT
  python3 -m venv "$work/venv"
  "$work/venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r "$here/stack/supply/go.txt"
  PATH=$work/venv/bin:$PATH GOTOOLCHAIN=local GOPATH=$work/path GOCACHE=$work/cache GOFLAGS='-modcacherw -buildvcs=false -mod=readonly' \
    GOBIN=$folder/bin go -C "$sources" install tool >"$work/log" 2>&1 || { cat "$work/log" >&2; return 1; }
  echo "$stamp" >"$folder/.stamp"
}

if [[ ${1:-} == --peers ]]; then
  build_peers
  exit 0
fi
if [[ ${#packages[@]} -eq 0 ]]; then
  [[ ${1:-} != --tests ]] || build_peers
  exit 0
fi

# Nobody is asked for what only a part takes.
as_root=()
if [[ $(id -u) != 0 ]]; then
  if sudo -n true 2>/dev/null; then as_root=(sudo); else as_root=(nobody); fi
fi
if [[ ${#missing[@]} -eq 0 && (${as_root[*]} == nobody || -z $(command -v apt-get)) ]]; then
  echo "left out, as installing takes root: ${extra[*]} (live traffic, filter sets by libpcap, applications by nDPI)"
  [[ ${1:-} != --tests ]] || build_peers
  exit 0
fi
echo "missing: ${missing[*]} ${extra[*]}"
install="apt-get install -y --no-install-recommends ${packages[*]}"
if ! command -v apt-get >/dev/null; then
  echo "setup: this is not Debian or Ubuntu; install these yourself: ${missing[*]}" >&2
  exit 2
elif [[ ${as_root[*]} == nobody ]]; then
  echo "setup: installing takes root; ask an administrator to run this once, then repeat your command:" >&2
  echo "  apt-get update && $install" >&2
  exit 2
fi
log=$(mktemp)
echo "installing: ${packages[*]}"
# An installation that was interrupted is finished first.
if ! { "${as_root[@]}" dpkg --configure -a && "${as_root[@]}" apt-get update && "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive $install; } >"$log" 2>&1; then
  tail -n 20 "$log" >&2
  echo "setup: the installation failed; its output is in $log" >&2
  exit 1
fi
rm -f "$log"
if ! command -v cargo >/dev/null && command -v rustup >/dev/null; then rustup default stable; fi
[[ ${1:-} != --tests ]] || build_peers
