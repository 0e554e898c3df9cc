package io.weir.jobs.filters;

import io.weir.jobs.message.Accepted;
import io.weir.jobs.table.Table;
import io.weir.jobs.table.TableRow;
import io.weir.proto.Counter;
import io.weir.proto.CounterMessage;
import org.apache.flink.api.common.functions.FlatMapFunction;
import org.apache.flink.util.Collector;

/**
 * The first part of the job {@code filters}: every counter of every message becomes a row of {@code
 * counters}.
 */
public final class CounterRows implements FlatMapFunction<Accepted, TableRow> {
  private static final long serialVersionUID = 1;

  @Override
  public void flatMap(Accepted accepted, Collector<TableRow> out) {
    CounterMessage message = accepted.counter();
    if (message == null) {
      return;
    }
    for (Counter counter : message.getCountersList()) {
      Object[] cells = {
        message.getIntervalStartMs() / 1000,
        message.getIntervalMs(),
        message.getProbe(),
        message.getWorker(),
        counter.getSet(),
        counter.getLabel(),
        counter.getPackets(),
        counter.getOctets()
      };
      out.collect(new TableRow(Table.COUNTERS, cells));
    }
  }
}
