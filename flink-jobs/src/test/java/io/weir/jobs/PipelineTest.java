package io.weir.jobs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.weir.jobs.graph.Options;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.PipelineOptions;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.graph.StreamGraph;
import org.apache.flink.streaming.api.graph.StreamNode;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The graph for each selection of jobs. */
class PipelineTest {
  private static StreamGraph graph(String jobs) throws Exception {
    String[] arguments = {"--checkpoints", "/nowhere", "--jobs", jobs};
    Configuration configuration = new Configuration();
    configuration.set(PipelineOptions.GENERIC_TYPES, false); // fails where Kryo would be used
    StreamExecutionEnvironment environment =
        StreamExecutionEnvironment.createLocalEnvironment(2, configuration);
    Pipeline.build(Options.parse(arguments, Map.of(), Jobs.ALL), environment);
    return environment.getStreamGraph();
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "ingest",
        "topn",
        "indicators",
        "mixes",
        "filters",
        "health",
        "alerts",
        "detect",
        "ingest,topn,indicators,mixes,filters,health,alerts,detect",
        "topn,filters"
      })
  void everyOperatorHasAUidOfItsOwn(String jobs) throws Exception {
    List<String> uids = new ArrayList<>();
    for (StreamNode node : graph(jobs).getStreamNodes()) {
      // A sink's parts are numbered after the sink's uid by Flink.
      assertNotNull(node.getTransformationUID(), node.getOperatorName());
      uids.add(node.getTransformationUID());
    }
    assertEquals(new TreeSet<>(uids).size(), uids.size(), uids::toString);
  }

  @ParameterizedTest
  @ValueSource(
      strings = {"ingest", "topn", "indicators", "mixes", "filters", "health", "alerts", "detect"})
  void aJobAloneStoresItsOwnRowsOnly(String job) throws Exception {
    Map<String, List<String>> tables =
        Map.of(
            "ingest", List.of("flows", "autonomous-systems", "ledger"),
            "topn indicators mixes", List.of("windows"),
            "filters", List.of("counters-end", "counter-means"),
            "health", List.of("alerts"),
            "alerts", List.of("agent-alerts"),
            "detect", List.of("detected"));
    String plan = graph(job).getStreamNodes().toString();
    tables.forEach(
        (name, stored) -> {
          for (String table : stored) {
            if (List.of(name.split(" ")).contains(job)) {
              assertTrue(plan.contains("store-" + table), plan);
            } else {
              assertFalse(plan.contains("store-" + table), plan);
            }
          }
        });
  }
}
