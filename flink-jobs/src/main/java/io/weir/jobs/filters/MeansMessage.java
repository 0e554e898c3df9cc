package io.weir.jobs.filters;

import io.weir.jobs.message.Accepted;
import io.weir.jobs.message.Enrolment;
import io.weir.jobs.message.RawMessage;
import io.weir.jobs.serde.WireType;
import java.util.List;

/**
 * A message to the means of one scope: the counters of one worker and interval, or the enrolled
 * probes.
 *
 * @param scope a probe's name, or one of {@link Scopes#ALL}
 * @param enrolled number of probes; -1 if this is a message of counters
 * @param probe that sent the counters; with {@code enrolled} the names of all, see {@link
 *     Enrolment#names}
 * @param worker that counted
 * @param epoch run of the agent
 * @param start of the interval, ms from 1970
 * @param length of the interval, ms
 * @param offset of the message in its partition
 * @param appended when the broker received the message, see {@link RawMessage#appended}; with
 *     {@code enrolled}, when Kafka was asked
 * @param counters of the interval; labels with a count of 0 may be absent
 * @param ends with {@code enrolled}, see {@link Enrolment#ends}
 */
record MeansMessage(
    String scope,
    int enrolled,
    String probe,
    int worker,
    long epoch,
    long start,
    int length,
    long offset,
    long appended,
    List<Counted> counters,
    long[] ends) {
  static final WireType<MeansMessage> TYPE = WireType.ofRecord(MeansMessage.class);

  /** Packets and layer-3 octets of a label in the interval. */
  record Counted(Label label, long packets, long octets) {}

  /** Whether only the worker and the time are known, see {@link Accepted#leftOutCounters}. */
  boolean isLeftOut() {
    return enrolled < 0 && length == 0;
  }

  static MeansMessage enrolled(String scope, Enrolment enrolment) {
    int count = enrolment.probes().size();
    String names = enrolment.names();
    return new MeansMessage(
        scope, count, names, 0, 0, 0, 0, 0, enrolment.at(), List.of(), enrolment.ends(true));
  }
}
