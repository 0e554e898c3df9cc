package io.weir.jobs.message;

import io.weir.jobs.serde.WireType;

/**
 * One Kafka message as it came.
 *
 * @param appended when the broker took it in (ms from 1970, LogAppendTime); {@link #NO_TIME} where
 *     it is unknown
 */
public record RawMessage(String topic, int partition, long offset, long appended, byte[] value) {
  /** Kafka's word for a time that is unknown. */
  public static final long NO_TIME = -1;

  public static final WireType<RawMessage> TYPE = WireType.ofRecord(RawMessage.class);
}
