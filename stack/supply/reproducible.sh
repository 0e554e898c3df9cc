#!/usr/bin/env bash
# Builds the agent and the jobs' jar again in another folder, and fails unless that gives the octets of those in the checkout.
# The other build differs in the length of its path, in cargo's home, time zone, locale, and the rights that new files get.
# Usage: stack/supply/reproducible.sh   (after make build)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
home=${CARGO_HOME:-$HOME/.cargo}
other=$work/another/and/a/much/longer/path/of/a/checkout
products=(capture/target/release/weir-probe flink-jobs/target/weir-flink-jobs.jar)

mkdir -p "$other"
# Changed files and new ones too, as they were for the build here.
git ls-files -z --cached --others --exclude-standard | tar --null --files-from=- -c | tar -x -C "$other"
# Cargo finds the sources of libraries under another path.
ln -s "$home" "$work/home-of-cargo"
(
  umask 077
  export TZ=Asia/Kathmandu LC_ALL=C CARGO_HOME=$work/home-of-cargo
  cd "$other"
  capture/build.sh --quiet --bin weir-probe
  cd flink-jobs && mvn -q -B package -DskipTests
)

failed=0
for product in "${products[@]}"; do
  if ! cmp "$product" "$other/$product"; then
    mkdir -p .weir/not-reproducible
    mv "$other/$product" .weir/not-reproducible
    echo "another build of $product differs: .weir/not-reproducible has it" >&2
    failed=1
  # Both might name the same folder of this machine.
  elif grep -aqF -e "$PWD" -e "$home" "$product"; then
    echo "$product names a folder of the machine that built it" >&2
    failed=1
  else
    sha256sum "$product"
  fi
done
((failed)) || echo "another folder gives the same agent and jar"
exit $failed
