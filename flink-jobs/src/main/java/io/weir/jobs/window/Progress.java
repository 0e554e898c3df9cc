package io.weir.jobs.window;

import io.weir.jobs.message.RangeSet;
import io.weir.jobs.message.StreamClock;
import io.weir.jobs.serde.Fields;
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

  /** Of a worker: the end of its last closed window. */
  private static final int UNTIL = 1;

  /**
   * A probe: how many workers it has, and for each the run, the end of its last closed window, when
   * the broker took in the record that says so, and when it was read.
   */
  private static final class Probe {
    int workers;
    long epoch;
    final Map<Integer, long[]> until = new TreeMap<>();
  }

  private final Map<String, Probe> probes = new TreeMap<>();

  /** Windows (by number) that are dropped: what comes for them is too late. */
  private final Map<String, RangeSet> over = new HashMap<>();

  int expected;

  private StreamClock clock = new StreamClock();

  /**
   * A worker has closed its intervals until {@code until}. What an older run says is of no interest
   * any more.
   */
  void mark(String name, int worker, int workers, long epoch, long until, long appended, long now) {
    advance(now);
    Probe probe = probes.computeIfAbsent(name, key -> new Probe());
    if (epoch >= probe.epoch) {
      probe.epoch = epoch;
      probe.workers = Math.max(1, workers);
    }
    long[] known = probe.until.get(worker);
    if (known == null || epoch > known[0]) {
      known = new long[] {epoch, until, 0, 0};
      probe.until.put(worker, known);
    } else if (epoch == known[0]) {
      known[UNTIL] = Math.max(known[UNTIL], until);
    }
    clock.heard(known, appended, now);
  }

  /** The time that windows go by. */
  long advance(long now) {
    return clock.advance(
        now,
        () -> probes.values().stream().flatMap(probe -> probe.until.values().stream()),
        () ->
            probes.size() < expected
                || probes.values().stream().anyMatch(probe -> probe.until.size() < probe.workers));
  }

  /** Whether every worker of the probe has closed its intervals until {@code end}. */
  boolean complete(String name, long end) {
    Probe probe = probes.get(name);
    if (probe == null) {
      return false;
    }
    for (int worker = 0; worker < probe.workers; worker++) {
      long[] until = probe.until.get(worker);
      if (until == null || until[UNTIL] < end) {
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
    copy.clock = clock.copy();
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
    protected String form() {
      return "2";
    }

    @Override
    public Progress copy(Progress from) {
      return from.copy();
    }

    @Override
    public void write(Progress progress, DataOutputView out) throws IOException {
      out.writeInt(progress.expected);
      progress.clock.fields(Fields.to(out));
      out.writeInt(progress.probes.size());
      for (Map.Entry<String, Probe> entry : progress.probes.entrySet()) {
        Probe probe = entry.getValue();
        out.writeUTF(entry.getKey());
        out.writeInt(probe.workers);
        out.writeLong(probe.epoch);
        out.writeInt(probe.until.size());
        for (Map.Entry<Integer, long[]> worker : probe.until.entrySet()) {
          out.writeInt(worker.getKey());
          for (long number : worker.getValue()) {
            out.writeLong(number);
          }
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
      progress.clock.fields(Fields.from(in));
      for (int left = in.readInt(); left > 0; left--) {
        Probe probe = new Probe();
        progress.probes.put(in.readUTF(), probe);
        probe.workers = in.readInt();
        probe.epoch = in.readLong();
        for (int workers = in.readInt(); workers > 0; workers--) {
          probe.until.put(
              in.readInt(),
              new long[] {in.readLong(), in.readLong(), in.readLong(), in.readLong()});
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
