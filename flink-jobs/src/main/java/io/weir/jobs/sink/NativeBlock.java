package io.weir.jobs.sink;

import io.weir.jobs.serde.Octets;
import io.weir.jobs.serde.WireSerializer;
import io.weir.jobs.serde.WireType;
import io.weir.jobs.table.Table;
import java.io.IOException;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/**
 * Rows of one table and one partition of it, as one block of ClickHouse's Native format.
 *
 * @param bytes holds the block in its first {@code length} octets; the operator that receives the
 *     block owns it
 */
public record NativeBlock(Table table, int partition, int rows, byte[] bytes, int length) {
  public static final WireType<NativeBlock> TYPE =
      new WireType<>(NativeBlock.class, new Serializer());

  /** Writes a {@link NativeBlock}; only used where operators are not chained. */
  public static final class Serializer extends WireSerializer<NativeBlock> {
    private static final long serialVersionUID = 1;

    @Override
    public void write(NativeBlock block, DataOutputView out) throws IOException {
      out.writeByte(block.table.id());
      out.writeInt(block.partition);
      out.writeInt(block.rows);
      out.writeInt(block.length);
      out.write(block.bytes, 0, block.length);
    }

    @Override
    public NativeBlock read(DataInputView in) throws IOException {
      Table table = Table.of(in.readByte());
      int partition = in.readInt();
      int rows = in.readInt();
      byte[] bytes = Octets.read(in);
      return new NativeBlock(table, partition, rows, bytes, bytes.length);
    }
  }
}
