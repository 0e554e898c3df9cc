package io.weir.jobs.filters;

import io.weir.jobs.filters.MeansMessage.Counted;
import io.weir.jobs.filters.MeansWindow.Cell;
import io.weir.jobs.message.Enrolment;
import io.weir.jobs.message.RangeSet;
import io.weir.jobs.message.RawMessage;
import io.weir.jobs.message.StreamClock;
import io.weir.jobs.serde.Fields;
import io.weir.jobs.serde.Form;
import io.weir.jobs.serde.FormSerializer;
import io.weir.jobs.serde.Longs;
import io.weir.jobs.table.Table;
import io.weir.jobs.table.TableRow;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.Comparator;
import java.util.EnumMap;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Consumer;
import java.util.function.ObjIntConsumer;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/**
 * The means of one scope: a probe, or one share of the counter sets over all probes. Each counter
 * is added to the window of every {@link Span} that contains its interval. A window is complete
 * when every probe of the scope has sent counters up to its end, or {@code delay} after its end
 * with the counters received so far (for windows of the past, {@code delay} after their first part
 * arrived). If more counters arrive, its rows are written again, until {@link #KEEP_MS} after the
 * window's end or after its last part, whichever is later, or until the window makes room for
 * others. The time is that of {@link StreamClock}.
 */
final class Means {
  /** How long a window accepts late counters. */
  static final long KEEP_MS = StreamClock.KEEP_MS;

  /**
   * Maximum number of sums that a scope keeps, over all windows; it drops the windows that have
   * been unchanged for longest first.
   */
  static final int MAX_CELLS = 1_000_000;

  /**
   * Maximum number of windows that a scope keeps, since a backlog, or a clock that jumps, makes
   * many.
   */
  static final int MAX_WINDOWS = 3_000;

  private static final int MAX_RANGES = 1_000;

  /** Minimum time between two ticks that messages trigger. */
  private static final long TICK_MS = 200;

  /**
   * A window.
   *
   * @param since time from which it is kept for late counters
   * @param withheld whether it is too far ahead to be written or kept: see {@link
   *     StreamClock#AHEAD_MS}
   */
  private record Place(Span span, long start, MeansWindow window, long since, boolean withheld) {}

  private final EnumMap<Span, TreeMap<Long, MeansWindow>> windows = new EnumMap<>(Span.class);

  /** Numbers of dropped windows, for which counters arrive too late. */
  private final EnumMap<Span, RangeSet> over = new EnumMap<>(Span.class);

  private final TreeMap<String, Heard> probes = new TreeMap<>();

  /** Number of enrolled probes, for the scope over all probes. */
  private int enrolled;

  private long tickedAt;

  private final StreamClock clock = new StreamClock();

  Means() {
    for (Span span : Span.values()) {
      windows.put(span, new TreeMap<>());
      over.put(span, new RangeSet(MAX_RANGES));
    }
  }

  boolean isEmpty() {
    return windows.values().stream().allMatch(Map::isEmpty);
  }

  /** Time of the last tick, ms from 1970; 0 if there was none. */
  long tickedAt() {
    return tickedAt;
  }

  /** The probes that have sent counters. */
  Set<String> probes() {
    return Collections.unmodifiableSet(probes.keySet());
  }

  /** Forgets removed probes without counters in any window. */
  void forget(Collection<String> removed) {
    Set<String> gone = new HashSet<>(removed);
    if (!gone.isEmpty()) {
      windows
          .values()
          .forEach(span -> span.values().forEach(it -> gone.removeAll(it.seconds.keySet())));
    }
    probes.keySet().removeAll(gone);
    clock.forget(gone);
  }

  /** Memory that the windows take, in entries. */
  int size() {
    return windows.values().stream()
        .flatMap(span -> span.values().stream())
        .mapToInt(MeansWindow::size)
        .sum();
  }

  /**
   * Adds a message; {@code dropped} receives the number of counters left out of a window, by cause.
   */
  void accept(MeansMessage message, long now, ObjIntConsumer<String> dropped) {
    long clockNow = clock.advance(now);
    if (message.enrolled() >= 0) {
      enrolled = message.enrolled();
      List<String> names = Enrolment.names(message.probe());
      clock.listed(message.appended(), names, message.ends(), now);
      return;
    }
    clock.heard(message.probe(), message.worker(), message.offset(), message.appended(), now);
    if (message.isLeftOut()) {
      return;
    }
    long end = StreamClock.closed(message.start() + message.length(), message.appended());
    long came = RawMessage.came(message.appended(), now);
    probes
        .computeIfAbsent(message.probe(), key -> new Heard())
        .mark(message.worker(), message.epoch(), end, message.length(), came);
    long arrived = StreamClock.arrived(clockNow, now, message.appended());
    MeansWindow base = window(Span.HALF_MINUTE, message, arrived, dropped);
    List<MeansWindow> into = new ArrayList<>();
    for (Span span : Span.values()) {
      MeansWindow window =
          span == Span.HALF_MINUTE ? base : window(span, message, arrived, dropped);
      if (window != null) {
        window.came(message.probe(), message.worker(), message.start(), message.length());
        window.touched = Math.max(window.touched, arrived);
        window.changed = true;
        into.add(window);
      }
    }
    for (Counted counted : message.counters()) {
      add(counted, message, base, into, dropped);
    }
  }

  /** The window of a message, null if it fits into none or arrives too late. */
  private MeansWindow window(
      Span span, MeansMessage message, long arrived, ObjIntConsumer<String> dropped) {
    long number = message.start() / span.ms;
    if ((message.start() + message.length() - 1) / span.ms != number) {
      dropped.accept("interval_too_long", message.counters().size());
      return null;
    }
    if (over.get(span).contains(number)) {
      dropped.accept("too_late", message.counters().size());
      return null;
    }
    MeansWindow window = windows.get(span).get(number * span.ms);
    if (window == null) {
      window = new MeansWindow();
      window.began = arrived;
      windows.get(span).put(number * span.ms, window);
    }
    return window;
  }

  private static void add(
      Counted counted,
      MeansMessage message,
      MeansWindow base,
      List<MeansWindow> into,
      ObjIntConsumer<String> dropped) {
    long packets = counted.packets();
    long octets = counted.octets();
    double seconds = message.length() / 1000.0;
    if (base != null && !Scopes.isAll(message.scope())) {
      Map<Label, Cell> interval =
          base.intervals.computeIfAbsent(message.start(), key -> new HashMap<>());
      Cell piece = MeansWindow.cell(interval, counted.label());
      if (piece != null) {
        piece.packets += packets;
        piece.octets += octets;
        packets = piece.packets;
        octets = piece.octets;
      }
    } else if (base != null) {
      Cell piece = base.cells.get(counted.label());
      packets += piece == null ? 0 : piece.packets;
      octets += piece == null ? 0 : piece.octets;
      seconds = Span.HALF_MINUTE.seconds;
    }
    for (MeansWindow window : into) {
      Cell cell = window.cell(counted.label());
      if (cell == null) {
        dropped.accept("too_many_labels", 1);
        continue;
      }
      cell.packets += counted.packets();
      cell.octets += counted.octets();
      cell.peak(packets, octets, seconds);
    }
  }

  /** Whether {@link #tick} must follow a message; in a backlog, only some messages need it. */
  boolean isTickDue(long now) {
    int count = windows.values().stream().mapToInt(Map::size).sum();
    return Math.abs(now - tickedAt) >= TICK_MS || count > 2 * MAX_WINDOWS;
  }

  /** Writes the rows that are due, and drops finished windows. */
  void tick(String scope, long now, long delay, Consumer<TableRow> out) {
    tickedAt = now;
    long clockNow = clock.advance(now);
    List<Place> idle = new ArrayList<>();
    int cells = 0;
    int count = 0;
    for (Span span : Span.values()) {
      for (Map.Entry<Long, MeansWindow> entry : windows.get(span).entrySet()) {
        MeansWindow window = entry.getValue();
        long start = entry.getKey();
        window.notAfter(now);
        StreamClock.Ending ending = StreamClock.Ending.of(clockNow, start, span.ms, window.began);
        boolean far = ending.far();
        boolean waited = clockNow >= ending.whole() + delay && !far;
        int reported = reported(ending.end());
        boolean whole = waited || reported >= expected(scope, reported);
        if (window.due(span, whole, reported, now)) {
          rows(scope, span, entry.getKey(), window, waited, reported, out);
          window.said(whole, reported, now);
        }
        cells += window.size();
        count++;
        boolean withheld = far && window.version == 0;
        idle.add(new Place(span, start, window, ending.keptFrom(window.touched), withheld));
      }
    }
    idle.sort(Comparator.comparingLong(place -> place.window.touched));
    for (Place place : idle) {
      MeansWindow window = place.window;
      long end = place.start + place.span.ms;
      boolean said = window.saidWhole && !window.changed;
      boolean done = (said || place.withheld) && clockNow - place.since >= KEEP_MS;
      if (!done && cells <= MAX_CELLS && count <= MAX_WINDOWS) {
        continue;
      }
      if (window.changed && !place.withheld) { // it makes room before its time
        int reported = reported(end);
        rows(scope, place.span, place.start, window, false, reported, out);
      }
      cells -= window.size();
      count--;
      windows.get(place.span).remove(place.start);
      // Other probes may reach a window in the future that only makes room.
      if (end <= clockNow || (window.version > 0 && (done || !Scopes.isAll(scope)))) {
        over.get(place.span).add(place.start / place.span.ms);
      }
    }
  }

  private int reported(long end) {
    return (int) probes.values().stream().filter(heard -> heard.complete(end)).count();
  }

  private int expected(String scope, int reported) {
    // Until Kafka has listed the probes, only the delay completes a window over all probes.
    int known = enrolled > 0 ? enrolled : Integer.MAX_VALUE;
    return Scopes.isAll(scope) ? Math.max(known, reported) : 1;
  }

  private void rows(
      String scope,
      Span span,
      long start,
      MeansWindow window,
      boolean over,
      int reported,
      Consumer<TableRow> out) {
    boolean all = Scopes.isAll(scope);
    int expected = all ? Math.max(enrolled, reported) : 1;
    long end = start + span.ms;
    double seen = 0;
    double due = 0;
    for (Map.Entry<String, TreeMap<Integer, RangeSet>> entry : window.seconds.entrySet()) {
      Heard heard = probes.get(entry.getKey());
      long until = over ? end : Math.min(end, heard.newest());
      int workers = Math.max(heard.active(), entry.getValue().size());
      due += (double) workers * Math.max(0, until - start) / heard.length;
      for (RangeSet seconds : entry.getValue().values()) {
        seen += seconds.countIn(0, Long.MAX_VALUE - 1) * 1000.0 / heard.length;
      }
    }
    long intervalsSeen = Math.round(seen);
    long intervalsExpected = Math.max(intervalsSeen, Math.round(due));
    double covered = window.covered();
    window.version++;
    for (Map.Entry<Label, Cell> entry : new TreeMap<>(window.cells).entrySet()) {
      Cell cell = entry.getValue();
      Object[] row = {
        start / 1000,
        span.seconds,
        all ? 2 : 1,
        all ? "" : scope,
        entry.getKey().set(),
        entry.getKey().label(),
        window.version,
        cell.packets,
        cell.octets,
        MeansWindow.unsigned(cell.packets) / covered,
        MeansWindow.unsigned(cell.octets) / covered,
        cell.peakPackets,
        cell.peakOctets,
        intervalsSeen,
        intervalsExpected,
        reported,
        expected
      };
      out.accept(new TableRow(Table.COUNTER_MEANS, row));
    }
  }

  private void fields(Fields fields) throws IOException {
    enrolled = fields.of("enrolled", enrolled);
    tickedAt = fields.of("tickedAt", tickedAt);
    clock.fields(fields);
  }

  /** Writes a {@link Means}; each label once. */
  public static final class Serializer extends FormSerializer<Means> {
    private static final long serialVersionUID = 1;
    private static final String SPANS = "spans";

    public Serializer() {
      super(
          Heard.with(MeansWindow.with(Form.of("4")))
              .with("means", new Means()::fields)
              .with(
                  SPANS,
                  Arrays.stream(Span.values())
                      .map(span -> new Form.Field(span.name(), span.seconds + " s"))
                      .toList()));
    }

    @Override
    public void write(Means means, DataOutputView out) throws IOException {
      Map<Label, Integer> labels = new LinkedHashMap<>();
      for (TreeMap<Long, MeansWindow> span : means.windows.values()) {
        for (MeansWindow window : span.values()) {
          for (Label label : window.cells.keySet()) {
            labels.putIfAbsent(label, labels.size());
          }
          for (Map<Label, Cell> interval : window.intervals.values()) {
            for (Label label : interval.keySet()) {
              labels.putIfAbsent(label, labels.size());
            }
          }
        }
      }
      out.writeInt(labels.size());
      for (Label label : labels.keySet()) {
        out.writeUTF(label.set());
        out.writeUTF(label.label());
      }
      for (Span span : Span.values()) {
        out.writeInt(means.windows.get(span).size());
        for (Map.Entry<Long, MeansWindow> entry : means.windows.get(span).entrySet()) {
          out.writeLong(entry.getKey());
          entry.getValue().write(out, labels);
        }
        long[] bounds = means.over.get(span).toArray();
        Longs.write(bounds, bounds.length, out);
      }
      out.writeInt(means.probes.size());
      for (Map.Entry<String, Heard> entry : means.probes.entrySet()) {
        out.writeUTF(entry.getKey());
        entry.getValue().write(out);
      }
      means.fields(Fields.to(out));
      means.clock.writePartitions(out);
    }

    @Override
    protected Means read(DataInputView in, Form.Parts parts) throws IOException {
      Means means = new Means();
      Label[] labels = new Label[in.readInt()];
      for (int i = 0; i < labels.length; i++) {
        labels[i] = new Label(in.readUTF(), in.readUTF());
      }
      for (Form.Field field : parts.fields(SPANS)) {
        TreeMap<Long, MeansWindow> windows = new TreeMap<>();
        for (int left = in.readInt(); left > 0; left--) {
          windows.put(in.readLong(), MeansWindow.read(in, parts, labels));
        }
        RangeSet over = RangeSet.of(MAX_RANGES, Longs.read(in));
        for (Span span : Span.values()) {
          if (span.name().equals(field.name())) {
            means.windows.put(span, windows);
            means.over.put(span, over);
          }
        }
      }
      for (int left = in.readInt(); left > 0; left--) {
        means.probes.put(in.readUTF(), Heard.read(in, parts));
      }
      means.fields(parts.of("means", in));
      means.clock.readPartitions(in);
      return means;
    }
  }
}
