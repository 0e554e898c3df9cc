#!/usr/bin/env bash
# Refuses to build where a part of Weir cannot: in a path with a space, as the configure script of librdkafka does not quote paths (it
# fails after it has run, and has deleted the file whose name is the path up to the space), or in one with a percent sign, which the
# migrations of Superset's database take for a variable.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
if [[ $here =~ [[:space:]] ]]; then
  echo "librdkafka cannot be built in a path with a space; move the checkout: $here" >&2
  exit 2
fi
if [[ $here =~ % ]]; then
  echo "Superset cannot make its database in a path with a percent sign; move the checkout: $here" >&2
  exit 2
fi
