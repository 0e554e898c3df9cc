package io.weir.jobs.source;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.weir.jobs.kafka.Brokers;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;

class EnrolmentPollTest {
  private static final List<String> TOPICS =
      List.of(
          "weir.flows.oslo-1",
          "weir.flows.oslo-2",
          "weir.flows.bergen-1",
          "weir.counters.oslo-1",
          "weir.alerts");

  private static List<String> own(String probes) {
    return new EnrolmentPoll(new Brokers("localhost:1", ""), probes, Duration.ofSeconds(1))
        .own(TOPICS);
  }

  @Test
  void jobsThatShareTheProbesExpectOnlyTheirOwn() {
    assertEquals(TOPICS.subList(0, 3), own(".+"));
    assertEquals(TOPICS.subList(0, 2), own("oslo-.*"));
    assertEquals(TOPICS.subList(2, 3), own("bergen-1|oslo"));
  }
}
