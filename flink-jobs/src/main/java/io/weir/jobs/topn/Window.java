package io.weir.jobs.topn;

import io.weir.jobs.serde.WireSerializer;
import java.io.IOException;
import java.util.Map;
import java.util.TreeMap;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/**
 * One bucket's part of one window: the sums of every probe, and what has been said of them. Times
 * are ms from 1970.
 */
final class Window {
  /**
   * One list: when it was last handed on (0: never), how many probes were complete, and whether it
   * has changed since.
   */
  static final class Said {
    long at;
    int reported;
    boolean changed;

    /**
     * Whether there is something to hand on, and it is time: at once where it is ready, later every
     * {@code again} ms.
     */
    boolean due(boolean ready, int nowReported, long now, long again) {
      return at == 0 ? changed && ready : (changed || nowReported > reported) && now - at >= again;
    }

    void said(int nowReported, long now) {
      at = now;
      reported = nowReported;
      changed = false;
    }
  }

  /** The sums of one probe. */
  static final class Sums {
    FlowTable flows = new FlowTable();
    long overflowPackets;
    long overflowOctets;
    final Said said = new Said();
  }

  final Map<String, Sums> probes = new TreeMap<>();
  final Said all = new Said();

  /** When the first part came. */
  long began;

  /** When the last part came. */
  long touched;

  /** Distinct five-tuples of all probes. */
  int entries() {
    int entries = 0;
    for (Sums sums : probes.values()) {
      entries += sums.flows.size();
    }
    return entries;
  }

  private Window copy() {
    Window copy = new Window();
    probes.forEach(
        (name, sums) -> {
          Sums other = new Sums();
          other.flows = sums.flows.copy();
          other.overflowPackets = sums.overflowPackets;
          other.overflowOctets = sums.overflowOctets;
          copySaid(sums.said, other.said);
          copy.probes.put(name, other);
        });
    copySaid(all, copy.all);
    copy.began = began;
    copy.touched = touched;
    return copy;
  }

  private static void copySaid(Said from, Said to) {
    to.at = from.at;
    to.reported = from.reported;
    to.changed = from.changed;
  }

  /** Writes a {@link Window}. */
  public static final class Serializer extends WireSerializer<Window> {
    private static final long serialVersionUID = 1;

    @Override
    public boolean isImmutableType() {
      return false;
    }

    @Override
    public Window copy(Window from) {
      return from.copy();
    }

    @Override
    public void write(Window window, DataOutputView out) throws IOException {
      out.writeLong(window.began);
      out.writeLong(window.touched);
      writeSaid(window.all, out);
      out.writeInt(window.probes.size());
      for (Map.Entry<String, Sums> entry : window.probes.entrySet()) {
        Sums sums = entry.getValue();
        out.writeUTF(entry.getKey());
        out.writeLong(sums.overflowPackets);
        out.writeLong(sums.overflowOctets);
        writeSaid(sums.said, out);
        Longs.write(sums.flows.cells(), sums.flows.size() * FlowTable.STRIDE, out);
      }
    }

    @Override
    public Window read(DataInputView in) throws IOException {
      Window window = new Window();
      window.began = in.readLong();
      window.touched = in.readLong();
      readSaid(window.all, in);
      for (int left = in.readInt(); left > 0; left--) {
        Sums sums = new Sums();
        window.probes.put(in.readUTF(), sums);
        sums.overflowPackets = in.readLong();
        sums.overflowOctets = in.readLong();
        readSaid(sums.said, in);
        long[] cells = Longs.read(in);
        sums.flows.addEntries(cells, 0, cells.length);
      }
      return window;
    }

    private static void writeSaid(Said said, DataOutputView out) throws IOException {
      out.writeLong(said.at);
      out.writeInt(said.reported);
      out.writeBoolean(said.changed);
    }

    private static void readSaid(Said said, DataInputView in) throws IOException {
      said.at = in.readLong();
      said.reported = in.readInt();
      said.changed = in.readBoolean();
    }
  }
}
