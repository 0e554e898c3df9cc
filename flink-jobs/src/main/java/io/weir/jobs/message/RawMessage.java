package io.weir.jobs.message;

import io.weir.jobs.serde.WireType;

/**
 * One Kafka message, unparsed.
 *
 * @param appended when the broker received it (ms from 1970, LogAppendTime); {@link #NO_TIME} if
 *     unknown
 */
public record RawMessage(String topic, int partition, long offset, long appended, byte[] value) {
  /** Kafka's value for an unknown time. */
  public static final long NO_TIME = -1;

  /** {@code appended}, or, if that is unknown, when the message was read. */
  public static long came(long appended, long read) {
    return appended == NO_TIME ? read : appended;
  }

  public static final WireType<RawMessage> TYPE = WireType.ofRecord(RawMessage.class);
}
