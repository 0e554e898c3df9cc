package io.weir.jobs.message;

import static io.weir.jobs.operator.Named.named;

import io.weir.jobs.serde.WireType;
import java.nio.ByteBuffer;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.KeyedStream;
import org.apache.flink.util.Collector;

/**
 * An event for the ledger, about one message on a flows topic or about Kafka as a whole.
 *
 * @param kind of event
 * @param probe the topic's probe, even if the message names another
 * @param worker the partition
 * @param epoch run of the agent
 * @param sequence of the message
 * @param interval start of its interval, ms from 1970
 * @param length of its interval, ms
 * @param offset in Kafka; {@link #NO_OFFSET} if unknown
 * @param appended when the broker received it, ms from 1970; {@link RawMessage#NO_TIME} if unknown
 * @param records of a batch
 * @param packets of a batch, both directions
 * @param octets of a batch, both directions
 * @param body a ClosingRecord, an {@link Enrolment}, or the {@link Reports} of a batch; else empty
 */
public record LedgerEvent(
    Kind kind,
    String probe,
    int worker,
    long epoch,
    long sequence,
    long interval,
    int length,
    long offset,
    long appended,
    long records,
    long packets,
    long octets,
    byte[] body) {
  public static final WireType<LedgerEvent> TYPE = WireType.ofRecord(LedgerEvent.class);

  /** Offset of an event that did not come from a partition. */
  public static final long NO_OFFSET = -1;

  private static final byte[] EMPTY = {};

  /** The kind of event. */
  public enum Kind {
    /** A batch, the first time. */
    BATCH,
    /** A repeat of a batch that arrived before. */
    REPEAT,
    /** A closing record. */
    CLOSING,
    /** An event that only shows how far the partition has been read: a dead letter. */
    READ,
    /** The probe is enrolled; the event states the end offsets of its partitions. */
    ENROLMENT
  }

  /** When the broker received the message, or, if that is unknown, when it was read. */
  public long came(long read) {
    return RawMessage.came(appended, read);
  }

  /** End of the message's interval, ms from 1970. */
  public long until() {
    return interval + length;
  }

  /** A message with a known position and unknown content. */
  public static LedgerEvent read(String probe, int worker, long offset, long appended) {
    return new LedgerEvent(Kind.READ, probe, worker, 0, 0, 0, 0, offset, appended, 0, 0, 0, EMPTY);
  }

  /** One event for each probe; the body holds the begin and end offsets of each partition. */
  public static void enrolled(Enrolment enrolment, Collector<LedgerEvent> out) {
    for (Enrolment.Probe probe : enrolment.probes()) {
      ByteBuffer body = ByteBuffer.allocate(probe.begin().length * 16);
      for (int i = 0; i < probe.begin().length; i++) {
        body.putLong(probe.begin()[i]).putLong(probe.end()[i]);
      }
      out.collect(
          new LedgerEvent(
              Kind.ENROLMENT,
              probe.name(),
              0,
              0,
              0,
              enrolment.at(),
              0,
              NO_OFFSET,
              RawMessage.NO_TIME,
              0,
              0,
              0,
              body.array()));
    }
  }

  /**
   * Events and Kafka's lists of probes, keyed by probe.
   *
   * @param job that the stream is for: the names of the operator and of its state begin with its
   *     name
   */
  public static KeyedStream<LedgerEvent, String> byProbe(
      DataStream<LedgerEvent> events, DataStream<Enrolment> enrolments, String job) {
    DataStream<LedgerEvent> enrolled =
        named(job + "-enrolled", TYPE, enrolments.flatMap(LedgerEvent::enrolled));
    return events.union(enrolled).keyBy(LedgerEvent::probe, Types.STRING);
  }

  /** The numbers in the body of an {@link Kind#ENROLMENT}. */
  public static long[] offsets(byte[] body) {
    long[] offsets = new long[body.length / 8];
    ByteBuffer.wrap(body).asLongBuffer().get(offsets);
    return offsets;
  }
}
