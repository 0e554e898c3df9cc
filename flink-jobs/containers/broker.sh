#!/bin/bash
# Runs Kafka with what `python -m weir.containers keys` left in /run/weir/broker: `broker.sh`; `broker.sh limits` bounds
# what each probe may publish, which Kafka takes only from its own command.
set -euo pipefail
handed=/run/weir/broker
mapfile -t options <"$handed/java"
classes='/opt/weir/broker.jar:/opt/kafka/libs/*'

if [[ ${1:-} == limits ]]; then
  eval "words=($(cat "$handed/limits"))"
  exec java -Xmx96m -XX:TieredStopAtLevel=1 -cp "$classes" kafka.admin.ConfigCommand --command-config "$handed/login.properties" "${words[@]}"
fi
[[ -e /var/lib/kafka/data/meta.properties ]] ||
  java "${options[@]}" -cp "$classes" kafka.tools.StorageTool format -t "$(<"$handed/cluster-id")" -c "$handed/broker.properties" --standalone
exec java "${options[@]}" -cp "$classes" kafka.Kafka "$handed/broker.properties"
