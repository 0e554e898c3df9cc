package io.weir.jobs.detect;

import io.weir.jobs.Stage;
import io.weir.jobs.alerts.AlertMessage;
import io.weir.jobs.enrich.Lookups;
import io.weir.jobs.message.Accepted;
import java.util.List;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.operators.KeyedProcessOperator;

/** The job {@code detect} in Flink's harness. */
public final class DetectStages {
  private final Stage<Accepted, Seen> observe = Stage.of(Observe::new, Seen.TYPE);
  private final Stage<Seen, AlertMessage> judge;

  /** Starts the operators, with the rules of these look-ups. */
  public DetectStages(Lookups.Factory rules) throws Exception {
    judge =
        Stage.keyed(
            () -> new KeyedProcessOperator<>(new Judge(rules)),
            Seen::bucket,
            Types.INT,
            AlertMessage.TYPE);
  }

  /** Sets the clock; returns what timers tell. */
  public List<AlertMessage> time(long ms) throws Exception {
    observe.time(ms);
    return judge.time(ms);
  }

  /** Reads a message. */
  public List<AlertMessage> give(Accepted message) throws Exception {
    return judge.giveAll(observe.give(message));
  }

  /** What a barrier makes them tell. */
  public List<AlertMessage> barrier() throws Exception {
    return judge.giveAll(observe.barrier());
  }

  /** The operators, to stop and start them. */
  public List<Stage<?, ?>> stages() {
    return List.of(observe, judge);
  }
}
