#!/usr/bin/env bash
# Fetch the jars that a Maven module runs with, and refuse any that its jars.sha256 does not list: a POM pins versions,
# and a registry could serve something else under them.
# Usage: stack/supply/jars.sh MODULE FOLDER [--pin]
#   MODULE has pom.xml and jars.sha256, FOLDER receives the jars and nothing else.
#   --pin writes jars.sha256 instead; `make lock` does.
set -euo pipefail
export LC_ALL=C
module=$1 folder=$2
rm -rf "$folder"
mkdir -p "$folder"
mvn -q -B --strict-checksums -f "$module/pom.xml" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$(cd "$folder" && pwd)"
have=$(cd "$folder" && sha256sum -- *.jar)
if [[ ${3:-} == --pin ]]; then
  echo "$have" >"$module/jars.sha256"
elif ! diff "$module/jars.sha256" <(echo "$have") >&2; then
  rm -rf "$folder"
  echo "these jars are not those of $module/jars.sha256 (<): if you changed versions, make lock" >&2
  exit 1
fi
