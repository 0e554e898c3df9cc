package io.weir.jobs.window;

import io.weir.jobs.message.Enrolment;
import io.weir.jobs.message.RawMessage;
import io.weir.jobs.serde.WireType;

/**
 * A message to the buckets of the windows.
 *
 * @param kind of message
 * @param bucket one of {@link Buckets#IDS}
 * @param probe that sent it; for {@link Kind#ENROLLED} the names of all, see {@link
 *     Enrolment#names}
 * @param window start of the window, ms from 1970; PART only
 * @param appended when the broker received the newest record of a PART, see {@link
 *     RawMessage#appended}
 * @param entries of a PART, and how the probe is declared
 * @param rank of the probe; PART only
 * @param data numbers, by kind
 * @param sketches of overflow records, see {@link Sketches}; PART only
 */
record WindowMessage(
    Kind kind,
    int bucket,
    String probe,
    long window,
    long appended,
    int entries,
    int rank,
    long[] data,
    long[] sketches) {
  static final WireType<WindowMessage> TYPE = WireType.ofRecord(WindowMessage.class);

  private static final long[] NONE = {};

  /** The kind of message. */
  enum Kind {
    /** Flows of one probe and window, {@link Packed}. */
    PART,
    /**
     * A worker has closed its intervals up to some time. Data: worker, number of the probe's
     * workers, epoch, end of the last closed interval (ms), the time at which the broker received
     * the record (see {@link RawMessage#appended}), and 1 if the record is the run's last.
     */
    MARK,
    /**
     * How far the jobs have read a worker's messages. Data: worker, offset of the newest one that
     * was read, and when the broker received it.
     */
    READ,
    /** The enrolled probes. Data: when Kafka was asked, and {@link Enrolment#ends}. */
    ENROLLED
  }

  static WindowMessage mark(int bucket, String probe, long... data) {
    return new WindowMessage(Kind.MARK, bucket, probe, 0, 0, 0, 0, data, NONE);
  }

  static WindowMessage read(int bucket, String probe, int worker, long offset, long appended) {
    long[] data = {worker, offset, appended};
    return new WindowMessage(Kind.READ, bucket, probe, 0, 0, 0, 0, data, NONE);
  }

  static WindowMessage enrolled(int bucket, String names, long[] data) {
    return new WindowMessage(Kind.ENROLLED, bucket, names, 0, 0, 0, 0, data, NONE);
  }
}
