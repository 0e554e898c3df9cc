package io.weir.jobs.sink;

import io.weir.jobs.operator.FlushingOperator;
import io.weir.jobs.table.Table;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/**
 * Collects rows into blocks, one block for each table and partition. Rows wait at most for one
 * checkpoint interval.
 */
public abstract class BlockOperator<T> extends FlushingOperator<T, NativeBlock> {
  private static final long serialVersionUID = 1;

  /** Rows of a full block; the server joins the blocks of one insert. */
  static final int BLOCK_ROWS = 16_384;

  /** Blocks collected at a time. */
  private static final int MAX_BLOCKS = 32;

  private static final long SECONDS_A_DAY = 86_400;

  private record Key(Table table, int partition) {}

  private transient Map<Key, BlockBuilder> builders;
  private transient Key lastKey;
  private transient long lastDay;
  private transient BlockBuilder last;

  @Override
  public void open() throws Exception {
    super.open();
    builders = new LinkedHashMap<>();
    lastDay = -1;
  }

  /**
   * The block for a row of a table with this {@code ts} (seconds from 1970); call {@link #added}
   * after writing the row.
   */
  protected final BlockBuilder builder(Table table, long ts) {
    long day = ts / SECONDS_A_DAY; // every table's partition is a whole number of days
    if (day != lastDay || table != lastKey.table) {
      lastKey = new Key(table, table.partition(ts));
      lastDay = day;
      last = builders.get(lastKey);
      if (last == null) {
        if (builders.size() >= MAX_BLOCKS) {
          flush();
        }
        last = new BlockBuilder(table);
        builders.put(lastKey, last);
      }
    }
    return last;
  }

  /** Emits the block if it is full. */
  protected final void added() {
    if (last.rows() >= BLOCK_ROWS) {
      output.collect(new StreamRecord<>(last.build(lastKey.partition)));
    }
  }

  @Override
  protected final void flush() {
    for (Map.Entry<Key, BlockBuilder> entry : builders.entrySet()) {
      if (entry.getValue().rows() > 0) {
        output.collect(new StreamRecord<>(entry.getValue().build(entry.getKey().partition)));
      }
    }
    if (builders.size() > 1) {
      builders.clear();
      lastDay = -1;
    }
  }
}
