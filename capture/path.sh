#!/usr/bin/env bash
# Refuses to build in a path with a space. The configure script of librdkafka does not quote paths: there it fails, after it has
# run and deleted the file whose name is the path up to the space.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
if [[ $here =~ [[:space:]] ]]; then
  echo "librdkafka cannot be built in a path with a space; move the checkout: $here" >&2
  exit 2
fi
