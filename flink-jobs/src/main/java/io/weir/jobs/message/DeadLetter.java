package io.weir.jobs.message;

import io.weir.jobs.serde.WireType;

/**
 * A diverted message, and the cause: {@code cause} is one word in snake case, followed by details.
 */
public record DeadLetter(RawMessage message, String cause) {
  public static final WireType<DeadLetter> TYPE = WireType.ofRecord(DeadLetter.class);
}
