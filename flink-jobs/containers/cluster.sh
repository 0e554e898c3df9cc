#!/bin/bash
# One part of the session cluster: `cluster.sh jobmanager`, `cluster.sh taskmanager`, or `cluster.sh submit OPTIONS`, which
# submits the jobs whenever the cluster does not run them, from the newest checkpoint. `cluster.sh healthy` says how the
# part in this container is.
set -euo pipefail
rest=http://127.0.0.1:8081 part=/tmp/weir-part checkpoints=/var/lib/weir/checkpoints jar=/opt/weir/weir-flink-jobs.jar

running() { # whether all tasks of the jobs run
  curl -fs --max-time 5 "$rest/jobs/overview" | grep -q '"state":"RUNNING"'
}
known() { # whether the cluster has the jobs, or is about to start or stop them
  curl -fs --max-time 5 "$rest/jobs/overview" | grep -qE '"state":"(CREATED|INITIALIZING|RUNNING|RESTARTING|FAILING|CANCELLING|RECONCILING)"'
}
answers() {
  curl -fs --max-time 5 -o /dev/null "$rest/overview"
}
newest() { # the newest complete checkpoint, if there is any
  mkdir -p "$checkpoints"
  find "$checkpoints" -mindepth 3 -maxdepth 3 -path '*/chk-*/_metadata' -printf '%T@ %h\n' 2>/dev/null | sort -n | tail -n 1 | cut -d' ' -f2
}

configure() { # a copy of the configuration with the password of the cluster's key, which is in no environment and no image
  export FLINK_CONF_DIR=/tmp/conf
  local password
  password=$(</run/weir/jobs/cluster.password)
  mkdir -p -m 700 "$FLINK_CONF_DIR" && cp /opt/flink/conf/* "$FLINK_CONF_DIR"
  sed -i "s/^      enabled: true$/&\n      keystore-password: $password\n      key-password: $password\n      truststore-password: $password/" \
    "$FLINK_CONF_DIR/config.yaml"
}

case ${1:-} in
  jobmanager | taskmanager)
    echo "$1" >"$part"
    configure
    exec "/opt/flink/bin/$1.sh" start-foreground
    ;;
  submit)
    shift
    echo submit >"$part"
    unanswered=0
    while sleep 3; do
      if ! answers; then
        # A job manager that started again has another network, which a container shares only if it starts after it.
        ((++unanswered < 20)) || exit 1
        continue
      fi
      unanswered=0
      ! known || continue
      state=$(newest)
      echo "submitting the jobs, from ${state:-the beginning}"
      # A job that --jobs leaves out leaves its state behind.
      /opt/flink/bin/flink run -d ${state:+-s "file://$state" --claimMode CLAIM --allowNonRestoredState} "$jar" --checkpoints "$checkpoints" "$@" ||
        sleep 10
    done
    ;;
  healthy)
    case $(<"$part") in
      jobmanager) answers ;;
      taskmanager) exec 3<>/dev/tcp/127.0.0.1/9249 ;;
      submit) running ;;
    esac
    ;;
  *)
    sed -n '2,4s/^# //p' "$0" >&2
    exit 2
    ;;
esac
