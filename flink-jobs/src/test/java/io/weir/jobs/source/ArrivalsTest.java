package io.weir.jobs.source;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.UnknownServerException;
import org.apache.kafka.common.internals.KafkaFutureImpl;
import org.junit.jupiter.api.Test;

/** A broker that cannot decompress one message must not hide when those of others arrived. */
class ArrivalsTest {
  private static final TopicPartition GOOD = new TopicPartition("weir.flows.good", 0);
  private static final TopicPartition BOMB = new TopicPartition("weir.flows.bomb", 0);

  private final List<String> causes = new ArrayList<>();
  private final Arrivals arrivals = new Arrivals(causes::add);

  private static KafkaFuture<ListOffsetsResultInfo> at(long timestamp) {
    return KafkaFuture.completedFuture(
        new ListOffsetsResultInfo(0, timestamp, Optional.<Integer>empty()));
  }

  private static KafkaFuture<ListOffsetsResultInfo> failure() {
    KafkaFutureImpl<ListOffsetsResultInfo> future = new KafkaFutureImpl<>();
    future.completeExceptionally(new UnknownServerException("too large"));
    return future;
  }

  @Test
  void aMessageThatTheBrokerCannotReadCameWhenItWasSeen() throws Exception {
    assertThat(arrivals.take(Map.of(GOOD, at(70), BOMB, at(50)), Map.of(GOOD, 7L, BOMB, 5L), 100))
        .isEqualTo(Map.of(GOOD, 70L, BOMB, 50L));
    // A failure without a new message tells nothing new.
    assertThat(
            arrivals.take(Map.of(GOOD, at(80), BOMB, failure()), Map.of(GOOD, 8L, BOMB, 5L), 200))
        .isEqualTo(Map.of(GOOD, 80L, BOMB, 50L));
    assertThat(
            arrivals.take(Map.of(GOOD, at(90), BOMB, failure()), Map.of(GOOD, 9L, BOMB, 6L), 300))
        .isEqualTo(Map.of(GOOD, 90L, BOMB, 300L));
    // Not asked again, and then readable again.
    assertThat(arrivals.take(Map.of(GOOD, at(95)), Map.of(GOOD, 9L, BOMB, 6L), 400))
        .isEqualTo(Map.of(GOOD, 95L, BOMB, 300L));
    assertThat(arrivals.take(Map.of(BOMB, at(450)), Map.of(BOMB, 7L), 500))
        .isEqualTo(Map.of(BOMB, 450L));
    assertThat(causes).containsExactly("unknown_server_error", "unknown_server_error");
  }

  @Test
  void anEmptyPartitionHasNoArrival() throws Exception {
    assertThat(arrivals.take(Map.of(GOOD, at(-1), BOMB, failure()), Map.of(GOOD, 0L, BOMB, 0L), 9))
        .isEqualTo(Map.of(GOOD, 0L, BOMB, 0L));
  }
}
