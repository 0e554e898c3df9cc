package io.weir.jobs.filters;

import io.weir.jobs.Stage;
import io.weir.jobs.message.Accepted;
import io.weir.jobs.message.Enrolment;
import io.weir.jobs.table.TableRow;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.functions.util.ListCollector;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.operators.KeyedProcessOperator;

/** The operators of the means, in sequence. */
public final class MeansStages {
  private static final Duration DELAY = Duration.ofSeconds(15);

  private final Stage<MeansMessage, TableRow> means =
      Stage.keyed(
          () -> new KeyedProcessOperator<>(new CounterMeans(DELAY)),
          MeansMessage::scope,
          Types.STRING,
          TableRow.TYPE);

  public MeansStages() throws Exception {}

  public List<TableRow> time(long ms) throws Exception {
    return means.time(ms);
  }

  public List<TableRow> enrolment(Enrolment enrolment) throws Exception {
    List<MeansMessage> messages = new ArrayList<>();
    Scopes.enrolled(enrolment, new ListCollector<>(messages));
    return means.giveAll(messages);
  }

  public List<TableRow> message(Accepted message) throws Exception {
    List<MeansMessage> messages = new ArrayList<>();
    Scopes.split(message, new ListCollector<>(messages));
    return means.giveAll(messages);
  }

  public List<Stage<?, ?>> all() {
    return List.of(means);
  }
}
