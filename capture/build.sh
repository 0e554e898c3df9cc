#!/usr/bin/env bash
# Builds the agent for a release: the program names no folder of the machine that built it, so that the same sources,
# compiler and libraries give the same octets in every folder. Options go to cargo.
# Usage: capture/build.sh [--quiet] [--bin weir-probe]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
./path.sh
home=${CARGO_HOME:-$HOME/.cargo}
# Cargo writes the path of its home as given, CMake the resolved one. Libraries in C are compiled below target/.
for map in "$(pwd -P)=/weir/capture" "$home=/cargo" "$(readlink -f "$home")=/cargo"; do
  CFLAGS="${CFLAGS:-} -ffile-prefix-map=$map"
  CXXFLAGS="${CXXFLAGS:-} -ffile-prefix-map=$map"
  RUSTFLAGS="${RUSTFLAGS:-} --remap-path-prefix=$map"
done
export CFLAGS CXXFLAGS RUSTFLAGS
exec cargo build --release --locked "$@"
