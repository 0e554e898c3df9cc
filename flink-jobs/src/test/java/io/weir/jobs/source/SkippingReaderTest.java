package io.weir.jobs.source;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Optional;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.Test;

class SkippingReaderTest {
  @Test
  void thePartitionIsInKafkasText() {
    assertEquals(
        Optional.of(new TopicPartition("weir.flows.a-1", 12)),
        SkippingReader.partition(
            "Received exception when fetching the next record from weir.flows.a-1-12. If needed,"
                + " please seek past the record to continue consumption."));
    assertTrue(SkippingReader.partition("Received exception when closing").isEmpty());
    assertTrue(SkippingReader.partition(null).isEmpty());
  }
}
