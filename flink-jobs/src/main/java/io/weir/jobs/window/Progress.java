package io.weir.jobs.window;

import io.weir.jobs.message.RangeSet;
import io.weir.jobs.serde.Longs;
import io.weir.jobs.serde.StateSerializer;
import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/**
 * How far every probe has come, as its closing records say; and which windows are over for good.
 */
final class Progress {
  private static final int MAX_RANGES = 1000;

  /**
   * A probe: how many workers it has, and for each the run and the end of its last closed window.
   */
  private static final class Probe {
    int workers;
    long epoch;
    final Map<Integer, long[]> until = new TreeMap<>(); // worker: epoch, until
  }

  private final Map<String, Probe> probes = new TreeMap<>();

  /** Windows (by number) that are dropped: what comes for them is too late. */
  private final Map<String, RangeSet> over = new HashMap<>();

  int expected;

  /**
   * A worker has closed its intervals until {@code until}. What an older run says is of no interest
   * any more.
   */
  void mark(String name, int worker, int workers, long epoch, long until) {
    Probe probe = probes.computeIfAbsent(name, key -> new Probe());
    if (epoch >= probe.epoch) {
      probe.epoch = epoch;
      probe.workers = Math.max(1, workers);
    }
    long[] known = probe.until.get(worker);
    if (known == null || epoch > known[0]) {
      probe.until.put(worker, new long[] {epoch, until});
    } else if (epoch == known[0]) {
      known[1] = Math.max(known[1], until);
    }
  }

  /** Whether every worker of the probe has closed its intervals until {@code end}. */
  boolean complete(String name, long end) {
    Probe probe = probes.get(name);
    if (probe == null) {
      return false;
    }
    for (int worker = 0; worker < probe.workers; worker++) {
      long[] until = probe.until.get(worker);
      if (until == null || until[1] < end) {
        return false;
      }
    }
    return true;
  }

  /** How many probes are complete until {@code end}. */
  int reported(long end) {
    int count = 0;
    for (String name : probes.keySet()) {
      count += complete(name, end) ? 1 : 0;
    }
    return count;
  }

  boolean isOver(String probe, long number) {
    RangeSet set = over.get(probe);
    return set != null && set.contains(number);
  }

  void setOver(String probe, long number) {
    over.computeIfAbsent(probe, key -> new RangeSet(MAX_RANGES)).add(number);
  }

  private Progress copy() {
    Progress copy = new Progress();
    copy.expected = expected;
    probes.forEach(
        (name, probe) -> {
          Probe other = new Probe();
          other.workers = probe.workers;
          other.epoch = probe.epoch;
          probe.until.forEach((worker, until) -> other.until.put(worker, until.clone()));
          copy.probes.put(name, other);
        });
    over.forEach((name, set) -> copy.over.put(name, RangeSet.of(MAX_RANGES, set.toArray())));
    return copy;
  }

  /** Writes a {@link Progress}. */
  public static final class Serializer extends StateSerializer<Progress> {
    private static final long serialVersionUID = 1;

    @Override
    public Progress copy(Progress from) {
      return from.copy();
    }

    @Override
    public void write(Progress progress, DataOutputView out) throws IOException {
      out.writeInt(progress.expected);
      out.writeInt(progress.probes.size());
      for (Map.Entry<String, Probe> entry : progress.probes.entrySet()) {
        Probe probe = entry.getValue();
        out.writeUTF(entry.getKey());
        out.writeInt(probe.workers);
        out.writeLong(probe.epoch);
        out.writeInt(probe.until.size());
        for (Map.Entry<Integer, long[]> worker : probe.until.entrySet()) {
          out.writeInt(worker.getKey());
          out.writeLong(worker.getValue()[0]);
          out.writeLong(worker.getValue()[1]);
        }
      }
      out.writeInt(progress.over.size());
      for (Map.Entry<String, RangeSet> entry : progress.over.entrySet()) {
        out.writeUTF(entry.getKey());
        long[] bounds = entry.getValue().toArray();
        Longs.write(bounds, bounds.length, out);
      }
    }

    @Override
    public Progress read(DataInputView in) throws IOException {
      Progress progress = new Progress();
      progress.expected = in.readInt();
      for (int left = in.readInt(); left > 0; left--) {
        Probe probe = new Probe();
        progress.probes.put(in.readUTF(), probe);
        probe.workers = in.readInt();
        probe.epoch = in.readLong();
        for (int workers = in.readInt(); workers > 0; workers--) {
          probe.until.put(in.readInt(), new long[] {in.readLong(), in.readLong()});
        }
      }
      for (int left = in.readInt(); left > 0; left--) {
        String name = in.readUTF();
        progress.over.put(name, RangeSet.of(MAX_RANGES, Longs.read(in)));
      }
      return progress;
    }
  }
}
