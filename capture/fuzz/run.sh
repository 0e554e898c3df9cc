#!/usr/bin/env bash
# Fuzzes each target (all of them, or those named) for MINUTES (20), from the seeds of tests/lib/fuzz_seeds.py and the
# findings of earlier runs. Prints a table; logs are in LOGS (target/logs). A target ends early if it finds a failure:
# artifacts/TARGET/.
set -euo pipefail
cd "$(dirname "$0")"
minutes=${MINUTES:-20}
logs=${LOGS:-target/logs}
targets=("$@")
((${#targets[@]})) || targets=(packet captures fragments names hello netflow netflow5 netflow9 ipfix sflow nprobe_json nprobe_zmq)

command -v cargo-fuzz > /dev/null || cargo install --quiet --locked cargo-fuzz --version 0.13.2
rustup toolchain list | grep -q '^nightly' || rustup toolchain install nightly --profile minimal
cargo +nightly fuzz build
python3 ../../tests/lib/fuzz_seeds.py ${PCAPS:+"$PCAPS"}
mkdir -p "$logs"

found=0
for target in "${targets[@]}"; do
  mkdir -p "corpus/$target"
  nice -n 15 cargo +nightly fuzz run "$target" -- -max_total_time=$((minutes * 60)) -max_len=4096 -timeout=10 \
    -rss_limit_mb=2048 -print_final_stats=1 > "$logs/fuzz-$target.log" 2>&1 || found=1
done

printf '\n| target | minutes | executions | coverage (edges) | features | inputs kept | crashes, hangs |\n'
printf '|---|---:|---:|---:|---:|---:|---:|\n'
for target in "${targets[@]}"; do
  log=$logs/fuzz-$target.log
  executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log" | tail -1)
  last=$(grep -E '^#[0-9]+' "$log" | tail -1)
  value() { sed -nE "s/.* $1: ([0-9]+).*/\1/p" <<< "$last"; }
  kept=$(find "corpus/$target" -type f | wc -l)
  crashes=$(find "artifacts/$target" -type f 2> /dev/null | wc -l)
  printf '| %s | %s | %s | %s | %s | %s | %s |\n' "$target" "$minutes" "${executions:-?}" "$(value cov)" "$(value ft)" "$kept" "$crashes"
done
exit $found
