package io.weir.jobs.sink;

import java.util.Map;
import java.util.TreeMap;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/**
 * Collects rows into blocks, one block for each partition of the table. Holds no state: whatever it
 * has collected it hands on before each checkpoint's barrier, so rows wait at most for one
 * checkpoint interval.
 */
public abstract class BlockOperator<T> extends AbstractStreamOperator<NativeBlock>
    implements OneInputStreamOperator<T, NativeBlock> {
  private static final long serialVersionUID = 1;

  /** Rows of a full block; the server joins the blocks of one insert. */
  static final int BLOCK_ROWS = 16_384;

  /** Partitions collected at a time. */
  private static final int MAX_PARTITIONS = 8;

  private static final long SECONDS_A_DAY = 86_400;

  private final Table table;
  private transient TreeMap<Integer, BlockBuilder> builders;
  private transient long lastDay;
  private transient BlockBuilder last;
  private transient int lastPartition;

  protected BlockOperator(Table table) {
    this.table = table;
  }

  @Override
  public void open() throws Exception {
    super.open();
    builders = new TreeMap<>();
    lastDay = -1;
  }

  /**
   * Where a row with this {@code ts} (seconds from 1970) goes; call {@link #added} when the row is
   * in.
   */
  protected final BlockBuilder builder(long ts) {
    long day = ts / SECONDS_A_DAY; // every table's partition is a whole number of days
    if (day != lastDay) {
      lastDay = day;
      lastPartition = table.partition(ts);
      last = builders.get(lastPartition);
      if (last == null) {
        if (builders.size() >= MAX_PARTITIONS) {
          flush();
          lastDay = day;
        }
        last = new BlockBuilder(table);
        builders.put(lastPartition, last);
      }
    }
    return last;
  }

  /** Hands the block on where it is full. */
  protected final void added() {
    if (last.rows() >= BLOCK_ROWS) {
      output.collect(new StreamRecord<>(last.build(lastPartition)));
    }
  }

  @Override
  public void prepareSnapshotPreBarrier(long checkpointId) {
    flush();
  }

  @Override
  public void finish() {
    flush();
  }

  private void flush() {
    for (Map.Entry<Integer, BlockBuilder> entry : builders.entrySet()) {
      if (entry.getValue().rows() > 0) {
        output.collect(new StreamRecord<>(entry.getValue().build(entry.getKey())));
      }
    }
    if (builders.size() > 1) {
      builders.clear();
      lastDay = -1;
    }
  }
}
