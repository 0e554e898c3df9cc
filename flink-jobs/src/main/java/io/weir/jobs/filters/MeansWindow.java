package io.weir.jobs.filters;

import io.weir.jobs.message.RangeSet;
import io.weir.jobs.serde.Fields;
import io.weir.jobs.serde.Form;
import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/**
 * One window of one scope: the sums of every label, the time that they cover, and data on the rows
 * written last.
 */
final class MeansWindow {
  /** Maximum labels of a window; further ones are dropped. */
  static final int MAX_LABELS = 100_000;

  private static final int MAX_RANGES = 1_000;

  /** The sums of a label, and the highest rate in any of the parts that were added up. */
  static final class Cell {
    long packets;
    long octets;
    double peakPackets; // per second
    double peakOctets; // per second

    void fields(Fields fields) throws IOException {
      packets = fields.of("packets", packets);
      octets = fields.of("octets", octets);
      peakPackets = fields.of("peakPackets", peakPackets);
      peakOctets = fields.of("peakOctets", peakOctets);
    }

    void peak(long packets, long octets, double seconds) {
      peakPackets = Math.max(peakPackets, unsigned(packets) / seconds);
      peakOctets = Math.max(peakOctets, unsigned(octets) / seconds);
    }
  }

  final Map<Label, Cell> cells = new HashMap<>();

  /** Half minutes of a probe, with the sums of each interval over its workers, for peak rates. */
  final TreeMap<Long, Map<Label, Cell>> intervals = new TreeMap<>();

  /** By probe and worker: the seconds covered by received counters. */
  final TreeMap<String, TreeMap<Integer, RangeSet>> seconds = new TreeMap<>();

  /** Arrival of the first and of the last part; ms from 1970. */
  long began;

  long touched;

  /** Version of the rows written last, 0 if there are none; and the time when they were written. */
  int version;

  long saidAt;

  /** Number of probes that were complete when those rows were written. */
  int saidReported;

  /** Whether the window was over when those rows were written. */
  boolean saidWhole;

  /** Something came since. */
  boolean changed;

  static double unsigned(long count) {
    return count >= 0 ? count : (count >>> 1) * 2.0;
  }

  /** The label's sums, null if there is no room for another label. */
  Cell cell(Label label) {
    return cell(cells, label);
  }

  static Cell cell(Map<Label, Cell> cells, Label label) {
    Cell cell = cells.get(label);
    if (cell == null && cells.size() < MAX_LABELS) {
      cell = new Cell();
      cells.put(label, cell);
    }
    return cell;
  }

  void came(String probe, int worker, long start, int length) {
    seconds
        .computeIfAbsent(probe, key -> new TreeMap<>())
        .computeIfAbsent(worker, key -> new RangeSet(MAX_RANGES))
        .addRange(start / 1000, (start + length) / 1000 - 1);
  }

  /** Seconds covered by counters of any worker. */
  long covered() {
    RangeSet all = new RangeSet(MAX_RANGES);
    seconds.values().forEach(workers -> workers.values().forEach(all::addAll));
    return all.countIn(0, Long.MAX_VALUE - 1);
  }

  /** Whether rows are due and would differ from the last ones. */
  boolean due(Span span, boolean whole, int reported, long now) {
    if (whole && !saidWhole) {
      return true;
    }
    if (whole) {
      return (changed || reported > saidReported) && now - saidAt >= span.againMs;
    }
    return span.shownWhileItLasts()
        && changed
        && now / span.againMs > Math.max(began, saidAt) / span.againMs;
  }

  /** Moves times that are ahead of the clock to it: it has been ahead and was set back. */
  void notAfter(long now) {
    began = Math.min(began, now);
    touched = Math.min(touched, now);
    saidAt = Math.min(saidAt, now);
  }

  void said(boolean whole, int reported, long now) {
    saidAt = now;
    saidReported = reported;
    saidWhole |= whole;
    changed = false;
  }

  /** Memory that it takes, in entries. */
  int size() {
    int size = cells.size() + 1;
    for (Map<Label, Cell> interval : intervals.values()) {
      size += interval.size();
    }
    return size;
  }

  void write(DataOutputView out, Map<Label, Integer> labels) throws IOException {
    writeCells(cells, out, labels);
    out.writeInt(intervals.size());
    for (Map.Entry<Long, Map<Label, Cell>> interval : intervals.entrySet()) {
      out.writeLong(interval.getKey());
      writeCells(interval.getValue(), out, labels);
    }
    out.writeInt(seconds.size());
    for (Map.Entry<String, TreeMap<Integer, RangeSet>> probe : seconds.entrySet()) {
      out.writeUTF(probe.getKey());
      out.writeInt(probe.getValue().size());
      for (Map.Entry<Integer, RangeSet> worker : probe.getValue().entrySet()) {
        out.writeInt(worker.getKey());
        long[] bounds = worker.getValue().toArray();
        out.writeInt(bounds.length);
        for (long bound : bounds) {
          out.writeLong(bound);
        }
      }
    }
    fields(Fields.to(out));
  }

  /** The parts of its format. */
  static Form with(Form form) {
    return form.with("window", new MeansWindow()::fields).with("cell", new Cell()::fields);
  }

  static MeansWindow read(DataInputView in, Form.Parts parts, Label[] labels) throws IOException {
    MeansWindow window = new MeansWindow();
    readCells(window.cells, in, parts, labels);
    for (int left = in.readInt(); left > 0; left--) {
      Map<Label, Cell> interval = new HashMap<>();
      window.intervals.put(in.readLong(), interval);
      readCells(interval, in, parts, labels);
    }
    for (int left = in.readInt(); left > 0; left--) {
      TreeMap<Integer, RangeSet> workers = new TreeMap<>();
      window.seconds.put(in.readUTF(), workers);
      for (int more = in.readInt(); more > 0; more--) {
        int worker = in.readInt();
        long[] bounds = new long[in.readInt()];
        for (int i = 0; i < bounds.length; i++) {
          bounds[i] = in.readLong();
        }
        workers.put(worker, RangeSet.of(MAX_RANGES, bounds));
      }
    }
    window.fields(parts.of("window", in));
    return window;
  }

  private void fields(Fields fields) throws IOException {
    began = fields.of("began", began);
    touched = fields.of("touched", touched);
    version = fields.of("version", version);
    saidAt = fields.of("saidAt", saidAt);
    saidReported = fields.of("saidReported", saidReported);
    saidWhole = fields.of("saidWhole", saidWhole);
    changed = fields.of("changed", changed);
  }

  private static void writeCells(
      Map<Label, Cell> cells, DataOutputView out, Map<Label, Integer> labels) throws IOException {
    Fields to = Fields.to(out);
    out.writeInt(cells.size());
    for (Map.Entry<Label, Cell> entry : cells.entrySet()) {
      Cell cell = entry.getValue();
      out.writeInt(labels.get(entry.getKey()));
      cell.fields(to);
    }
  }

  private static void readCells(
      Map<Label, Cell> cells, DataInputView in, Form.Parts parts, Label[] labels)
      throws IOException {
    for (int left = in.readInt(); left > 0; left--) {
      Cell cell = new Cell();
      cells.put(labels[in.readInt()], cell);
      cell.fields(parts.of("cell", in));
    }
  }
}
