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

case ${1:-} in
  jobmanager | taskmanager)
    echo "$1" >"$part"
    exec "/opt/flink/bin/$1.sh" start-foreground
    ;;
  submit)
    shift
    echo submit >"$part"
    while sleep 3; do
      answers && ! known || continue
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
