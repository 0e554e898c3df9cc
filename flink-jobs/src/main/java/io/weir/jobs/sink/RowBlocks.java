package io.weir.jobs.sink;

import io.weir.jobs.table.TableRow;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/** Collects {@link TableRow}s into blocks. */
public final class RowBlocks extends BlockOperator<TableRow> {
  private static final long serialVersionUID = 1;

  @Override
  public void processElement(StreamRecord<TableRow> element) {
    TableRow row = element.getValue();
    BlockBuilder builder = builder(row.table(), row.ts());
    builder.addRow();
    Object[] cells = row.cells();
    for (int i = 0; i < cells.length; i++) {
      builder.setObject(i, cells[i]);
    }
    added();
  }
}
