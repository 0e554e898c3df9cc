package io.weir.jobs.window;

import io.weir.jobs.serde.Compressed;
import io.weir.jobs.serde.Fields;
import io.weir.jobs.serde.Form;
import io.weir.jobs.serde.FormSerializer;
import io.weir.jobs.serde.Longs;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.flink.api.common.typeutils.base.array.BytePrimitiveArraySerializer;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/**
 * One bucket's part of one window: the data of every probe, and the digests already sent. Times are
 * ms from 1970.
 */
final class WindowState {
  private static final long[] NONE = {};

  /** Octets that an entry takes on average. */
  private static final int OCTETS_OF_ENTRY = 64;

  private static final BytePrimitiveArraySerializer OCTETS = BytePrimitiveArraySerializer.INSTANCE;

  /**
   * The state of one scope: when its digests were last emitted (0: never), how many probes were
   * complete then, and whether data has arrived since; the digests sent, from which corrections of
   * sums are computed; and the attempts deferred to the next window. The last two are {@link
   * Compressed}.
   */
  static final class Said {
    long at;
    int reported;
    boolean changed;
    byte[] sums = Compressed.NONE;

    /** Numbers of an entry of {@link #sums}. */
    int stride;

    /** Attempts deferred to the next window, see {@link Attempts}. */
    byte[] late = Compressed.NONE;

    private long octets() {
      return (long) sums.length + late.length;
    }

    /**
     * Whether a digest is due: immediately when the window becomes complete, later every {@code
     * again} ms.
     */
    boolean due(boolean ready, int nowReported, long now, long again) {
      return at == 0 ? changed && ready : owes(nowReported) && now - at >= again;
    }

    /** Whether the digests sent lack data, or a probe that is complete by now. */
    boolean owes(int nowReported) {
      return changed || nowReported > reported;
    }

    private void notAfter(long now) {
      at = Math.min(at, now);
    }

    void said(int nowReported, long now) {
      at = now;
      reported = nowReported;
      changed = false;
    }

    private Said copy() {
      Said copy = new Said();
      copy.at = at;
      copy.reported = reported;
      copy.changed = changed;
      copy.stride = stride;
      copy.sums = sums; // are replaced, never changed
      copy.late = late;
      return copy;
    }

    private void fields(Fields fields) throws IOException {
      at = fields.of("at", at);
      reported = fields.of("reported", reported);
      changed = fields.of("changed", changed);
      stride = fields.of("stride", stride);
    }

    private void write(DataOutputView out) throws IOException {
      fields(Fields.to(out));
      OCTETS.serialize(sums, out);
    }

    private static Said read(DataInputView in, Form.Parts parts) throws IOException {
      Said said = new Said();
      said.fields(parts.of("said", in));
      said.sums = OCTETS.deserialize(in);
      return said;
    }
  }

  /**
   * The data of one probe: {@link Packed} entries in the order of arrival, or added up by flow if
   * there are many. Its arrays never change.
   */
  static final class Log {
    List<long[]> chunks = new ArrayList<>();
    int entries;

    /** Entries after they were last added up. */
    int compacted;

    int rank;
    long[] sketches = NONE;

    /** Octets that a flow may have lost to {@link Coarse}. */
    long errorOctets;

    Said said = new Said();

    /** Whether each flow is one entry. */
    boolean isCompact() {
      return entries == compacted;
    }

    void add(long[] packed, int count) {
      if (count > 0) {
        chunks.add(packed);
        entries += count;
      }
    }

    void addSketches(long[] rows) {
      if (rows.length > 0) {
        long[] all = Arrays.copyOf(sketches, sketches.length + rows.length);
        System.arraycopy(rows, 0, all, sketches.length, rows.length);
        sketches = all.length > 4096 * Sketches.STRIDE ? Sketches.merge(all) : all;
      }
    }

    private void end() {
      chunks = new ArrayList<>();
      entries = 0;
      compacted = 0;
      sketches = NONE;
      said.sums = Compressed.NONE;
    }

    private void fields(Fields fields) throws IOException {
      entries = fields.of("entries", entries);
      compacted = fields.of("compacted", compacted);
      rank = fields.of("rank", rank);
      errorOctets = fields.of("errorOctets", errorOctets);
    }

    private Log copy() {
      Log copy = new Log();
      copy.chunks = new ArrayList<>(chunks);
      copy.entries = entries;
      copy.compacted = compacted;
      copy.rank = rank;
      copy.sketches = sketches;
      copy.errorOctets = errorOctets;
      copy.said = said.copy();
      return copy;
    }
  }

  /**
   * The result of the last check of a window: what may be due, and when. It is not part of the
   * state: after a start the function checks every window.
   */
  static final class Look {
    private final int reported;
    private final long turn;

    /** When a digest may be sent again, by the wall clock. */
    private long at = Long.MAX_VALUE;

    /** When the window has waited long enough, or is over, by the time that windows follow. */
    private long atClock = Long.MAX_VALUE;

    /** Whether everything was sent, and the window is kept only for late data. */
    boolean finished;

    /** Whether no more of its flows can be added up. */
    boolean least;

    /**
     * A check of a window for which this many probes have reported, at this version of the
     * progress.
     */
    Look(int reported, long turn) {
      this.reported = reported;
      this.turn = turn;
    }

    /** Whether another check may find anything to do. */
    boolean isDue(long now, long clock, int nowReported, long nowTurn) {
      return now >= at || clock >= atClock || nowReported != reported || nowTurn != turn;
    }

    void atClock(long time) {
      atClock = Math.min(atClock, time);
    }

    /** A digest with new data is sent again after {@code again} ms. */
    void again(Said said, int nowReported, long again) {
      if (said.at != 0 && said.owes(nowReported)) {
        at = Math.min(at, said.at + again);
      }
    }
  }

  static final Look NOT_LOOKED = new Look(-1, -1);

  final Map<String, Log> probes = new TreeMap<>();
  Look look = NOT_LOOKED;

  /** Entries of all probes. Derived from the rest of the state, like {@link #told}. */
  int entries;

  /** Size of the data of {@link Said}, in entries, see {@link #weigh}. */
  private int saidEntries;

  /** Whether any digest was sent. */
  boolean told;

  Said all = new Said();

  /** Arrival of the first part. */
  long began;

  /** Arrival of the last part. */
  long touched;

  /** The memory that the window takes, in entries. */
  int weight() {
    return entries + saidEntries;
  }

  /** Recomputes how much memory the data of {@link Said} take. */
  void weigh() {
    long octets = all.octets();
    for (Log log : probes.values()) {
      octets += log.said.late == all.late ? 0 : log.said.octets();
    }
    saidEntries = (int) (octets / OCTETS_OF_ENTRY);
  }

  /**
   * Moves all times that are ahead of the clock to it: it has been ahead and was set back.
   *
   * @return whether there are any
   */
  boolean notAfter(long now) {
    // Whenever a probe's digest is sent at a wrong time, all probes' digest is, too.
    if (began <= now && touched <= now && all.at <= now) {
      return false;
    }
    began = Math.min(began, now);
    touched = Math.min(touched, now);
    all.notAfter(now);
    probes.values().forEach(log -> log.said.notAfter(now));
    look = NOT_LOOKED;
    return true;
  }

  /** Drops all data except that which the next window needs. */
  void end() {
    probes.values().forEach(Log::end);
    all.sums = Compressed.NONE;
    entries = 0;
    weigh();
  }

  /** Drops the attempts that the next window judges. */
  void dropAttempts() {
    all.late = Compressed.NONE;
    for (Log log : probes.values()) {
      log.said.late = Compressed.NONE;
    }
    weigh();
  }

  /** The data of the only probe; null if there are several. */
  private byte[] onlyLate() {
    return probes.size() == 1 ? probes.values().iterator().next().said.late : null;
  }

  /** The same attempts; shares the array of the only probe if that is equal. */
  byte[] shared(byte[] late) {
    return Arrays.equals(onlyLate(), late) ? onlyLate() : late;
  }

  private void fields(Fields fields) throws IOException {
    began = fields.of("began", began);
    touched = fields.of("touched", touched);
  }

  private WindowState copy() {
    WindowState copy = new WindowState();
    probes.forEach((name, log) -> copy.probes.put(name, log.copy()));
    copy.look = look;
    copy.all = all.copy();
    copy.entries = entries;
    copy.saidEntries = saidEntries;
    copy.told = told;
    copy.began = began;
    copy.touched = touched;
    return copy;
  }

  /** Writes a {@link WindowState}. */
  public static final class Serializer extends FormSerializer<WindowState> {
    private static final long serialVersionUID = 1;

    /** With the lengths of the rows that the compressed and packed data consist of. */
    private static final String MARK =
        "2, flows %d, sketches %d, attempts %d"
            .formatted(FlowTable.STRIDE, Sketches.STRIDE, Attempts.STRIDE);

    public Serializer() {
      super(
          Form.of(MARK)
              .with("window", new WindowState()::fields)
              .with("log", new Log()::fields)
              .with("said", new Said()::fields));
    }

    @Override
    public WindowState copy(WindowState from) {
      return from.copy();
    }

    @Override
    public void write(WindowState window, DataOutputView out) throws IOException {
      Fields to = Fields.to(out);
      window.fields(to);
      out.writeInt(window.probes.size());
      for (Map.Entry<String, Log> probe : window.probes.entrySet()) {
        Log log = probe.getValue();
        out.writeUTF(probe.getKey());
        log.fields(to);
        Longs.write(log.sketches, log.sketches.length, out);
        log.said.write(out);
        OCTETS.serialize(log.said.late, out);
        out.writeInt(log.chunks.size());
        for (long[] chunk : log.chunks) {
          Longs.write(chunk, chunk.length, out);
        }
      }
      window.all.write(out);
      byte[] late = window.all.late;
      boolean shared = late == window.onlyLate();
      out.writeBoolean(shared);
      if (!shared) {
        OCTETS.serialize(late, out);
      }
    }

    @Override
    protected WindowState read(DataInputView in, Form.Parts parts) throws IOException {
      WindowState window = new WindowState();
      window.fields(parts.of("window", in));
      for (int left = in.readInt(); left > 0; left--) {
        Log log = new Log();
        window.probes.put(in.readUTF(), log);
        log.fields(parts.of("log", in));
        log.sketches = Longs.read(in);
        log.said = Said.read(in, parts);
        log.said.late = OCTETS.deserialize(in);
        window.entries += log.entries;
        window.told |= log.said.at != 0;
        for (int chunks = in.readInt(); chunks > 0; chunks--) {
          log.chunks.add(Longs.read(in));
        }
      }
      window.all = Said.read(in, parts);
      window.told |= window.all.at != 0;
      boolean shared = in.readBoolean();
      window.all.late = shared ? window.onlyLate() : OCTETS.deserialize(in);
      window.weigh();
      return window;
    }
  }
}
