package io.weir.jobs.source;

import io.weir.jobs.metrics.Metric;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.function.Consumer;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsResult;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.protocol.Errors;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * When the newest message of each partition arrived. The broker decompresses that message to say
 * it; one that is without Weir's bounds (an operator's own) fails if the message is too large then.
 * Such a message counts as having arrived when it was first seen, and the broker is not asked about
 * it again.
 */
final class Arrivals {
  static final Metric UNKNOWN =
      Metric.counter(
          "unknown_arrivals",
          "enrolment",
          "Newest messages of a partition of which Kafka could not say when they arrived, by"
              + " `cause` (scope `weir_cause`)");

  private static final Logger LOG = LoggerFactory.getLogger(Arrivals.class);

  /** Of the messages below {@code end}. */
  private record Known(long end, long came, boolean failed) {}

  private final Consumer<String> count;
  private Map<TopicPartition, Known> known = Map.of();

  /** Gives the cause of each failure to {@code count}. */
  Arrivals(Consumer<String> count) {
    this.count = count;
  }

  /**
   * Asks Kafka.
   *
   * @param ends the next offset of each partition
   * @param at now, ms from 1970
   * @return ms from 1970; 0 if the partition is empty
   */
  Map<TopicPartition, Long> ask(Admin admin, Map<TopicPartition, Long> ends, long at)
      throws InterruptedException {
    Map<TopicPartition, OffsetSpec> asked = new HashMap<>();
    ends.forEach(
        (partition, end) -> {
          Known before = known.get(partition);
          if (before == null || !before.failed() || before.end() != end) {
            asked.put(partition, OffsetSpec.maxTimestamp());
          }
        });
    ListOffsetsResult answers = admin.listOffsets(asked);
    Map<TopicPartition, KafkaFuture<ListOffsetsResultInfo>> futures = new HashMap<>();
    asked.keySet().forEach(one -> futures.put(one, answers.partitionResult(one)));
    return take(futures, ends, at);
  }

  /** Takes the answers; partitions without one keep what is known. */
  Map<TopicPartition, Long> take(
      Map<TopicPartition, KafkaFuture<ListOffsetsResultInfo>> answers,
      Map<TopicPartition, Long> ends,
      long at)
      throws InterruptedException {
    Map<TopicPartition, Known> now = new HashMap<>();
    Map<TopicPartition, Long> came = new HashMap<>();
    for (Map.Entry<TopicPartition, Long> one : ends.entrySet()) {
      TopicPartition partition = one.getKey();
      Known found = known.get(partition);
      KafkaFuture<ListOffsetsResultInfo> answer = answers.get(partition);
      if (answer != null) {
        try {
          found = new Known(one.getValue(), Math.max(0, answer.get().timestamp()), false);
        } catch (ExecutionException e) {
          found = failed(partition, one.getValue(), at, e.getCause());
        }
      }
      now.put(partition, found);
      came.put(partition, found.came());
    }
    known = now;
    return came;
  }

  private Known failed(TopicPartition partition, long end, long at, Throwable why) {
    count.accept(Errors.forException(why).name().toLowerCase(Locale.ROOT));
    LOG.warn(
        "Kafka does not say when the newest message of {} before offset {} arrived: {}",
        partition,
        end,
        why.toString());
    Known before = known.get(partition);
    if (before != null && before.end() == end) {
      return new Known(end, before.came(), true);
    }
    return new Known(end, end == 0 ? 0 : at, true);
  }
}
