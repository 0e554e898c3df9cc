package io.weir.jobs;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.stream.Collectors;

/**
 * Random events over some minutes, chosen by a seed and written as a {@link Trace}, of several
 * agents, Kafka, and a person who stops and starts the jobs: probes of one or two workers, one flow
 * seen by several of them, batches and closing records that are lost, late or repeated, workers
 * whose messages are delayed for minutes and then arrive all at once, agents restarted or stopped,
 * clocks that step, floods beyond an agent's bounds, malformed messages, and jobs stopped and
 * started from their state at any time. After it come {@link #QUIET_S} seconds without messages.
 */
final class Schedule {
  /** Length of the silence at the end: longer than any wait. */
  static final int QUIET_S = 900;

  /** For how long at the most a window is kept after the time of its beginning. */
  private static final int KEPT_S = 700;

  /** How long the jobs remember a probe that is no longer listed. */
  private static final int FORGET_S = 3_600;

  private static final int INTERVAL_S = 10;

  /** More intervals than most schedules have. */
  private static final int MANY = 50;

  /**
   * The properties that seeds may have. Each makes a share of the schedules harder; the others are
   * the same with and without it. {@code -Dweir.properties=STALLS,SPOOLS} leaves out all others.
   */
  static final EnumSet<Property> ENABLED = Property.chosen();

  /** A property of schedules. */
  enum Property {
    /**
     * After a crash the jobs read the backlog at 0.5 to 20 times real time, with pauses and
     * restarts, and some partitions before others.
     */
    CATCH_UPS(0.10),

    /** The jobs read nothing for 1 to 15 minutes, while their timers run; then the backlog. */
    STALLS(0.08),

    /** A probe's clock is far ahead for a while, then right again; or it is set back. */
    CLOCK_STEPS(0.10),

    /**
     * An agent began while its clock was ahead, and begins again when the clock is right, with a
     * lower epoch.
     */
    LOWER_EPOCHS(0.05),

    /**
     * An agent is away from Kafka for 10 minutes to 4 hours, and then sends its records at once.
     */
    SPOOLS(0.01),

    /** No other schedules, but a check: rows that are written again have a higher version. */
    VERSIONS(0);

    /** The share of seeds that have it. */
    final double share;

    Property(double share) {
      this.share = share;
    }

    private static EnumSet<Property> chosen() {
      String names = System.getProperty("weir.properties", "all");
      return names.equals("all")
          ? EnumSet.allOf(Property.class)
          : Arrays.stream(names.split(","))
              .map(Property::valueOf)
              .collect(Collectors.toCollection(() -> EnumSet.noneOf(Property.class)));
    }
  }

  /**
   * A wrong clock: from which to which interval, by how many seconds, and whether the agent begins
   * a new run at once when it is set back, and dies soon after.
   */
  private record Step(String of, int from, int to, int seconds, boolean restarts, boolean dies) {
    /** The interval from which on a probe sends nothing. */
    int end(String probe, int end) {
      return dies && probe.equals(of) ? Math.min(end, to + 1) : end;
    }

    /**
     * Whether the agent begins a new run in an interval: at once when its clock is set back, or
     * after one interval.
     */
    boolean begins(String probe, int interval) {
      return at(probe, restarts ? interval : interval - 1) < 0;
    }

    /** By how many seconds a probe's clock steps when an interval begins. */
    int at(String probe, int interval) {
      int by = interval == from ? seconds : interval == to ? -seconds : 0;
      return probe.equals(of) ? by : 0;
    }
  }

  /** A line of the trace. {@code order} keeps one worker's messages in their order. */
  private record Line(double at, long order, String text) {
    @Override
    public String toString() {
      return String.format(Locale.ROOT, "%.3f %s", at, text);
    }
  }

  private final Random random;

  /** Chooses how the jobs restart, independently of everything else. */
  private final Random restarts;

  /** Chooses the properties and what they do, independently of everything else. */
  private final Random harder;

  private final EnumSet<Property> has = EnumSet.noneOf(Property.class);
  private Step step;

  /** The probe whose first run has a high epoch, and the interval in which the next one begins. */
  private String ahead = "";

  private int right;

  /** Whether that first run says that it is the last. */
  private boolean saysLast;

  /** Until when the probes with these names are away from Kafka, seconds. */
  private final TreeMap<String, Integer> away = new TreeMap<>();

  private final List<Line> lines = new ArrayList<>();
  private final List<String> flows = new ArrayList<>();
  private long order;

  /** The first interval in which no wire has packets, and the length of that silence in seconds. */
  private int silentFrom;

  private int silentS;

  /** Messages lost so far, by partition: {@code late} names them by number. */
  private final TreeMap<String, Integer> lost = new TreeMap<>();

  private final TreeMap<String, Integer> sent = new TreeMap<>();

  private Schedule(long seed) {
    random = new Random(seed * 0x9E3779B97F4A7C15L);
    restarts = new Random(seed * 0x9E3779B97F4A7C15L + 1);
    harder = new Random(seed * 0x9E3779B97F4A7C15L + 2);
    for (Property property : Property.values()) {
      if (harder.nextDouble() < property.share && ENABLED.contains(property)) {
        has.add(property);
      }
    }
  }

  /** Whether a seed has a property. */
  static boolean has(long seed) {
    return !new Schedule(seed).has.isEmpty();
  }

  /** The trace of a seed. */
  static List<String> of(long seed) {
    Schedule schedule = new Schedule(seed);
    schedule.draw();
    return schedule.text();
  }

  private List<String> text() {
    lines.sort(Comparator.comparingDouble(Line::at).thenComparingLong(Line::order));
    List<String> text = new ArrayList<>();
    lines.forEach(line -> text.add(line.toString()));
    return text;
  }

  private boolean chance(double probability) {
    return random.nextDouble() < probability;
  }

  private void add(double at, String text) {
    lines.add(new Line(at, order++, text));
  }

  private void draw() {
    if (chance(0.25)) {
      add(0, "window-entries " + 64 * (16 + random.nextInt(100)));
    }
    if (chance(0.5)) {
      add(0, "seldom-barriers");
    }
    int probes = 1 + random.nextInt(3);
    int intervals = 6 + random.nextInt(18);
    if (chance(0.15)) {
      silentFrom = 1 + random.nextInt(intervals);
      silentS = INTERVAL_S * (3 + random.nextInt(100));
    }
    for (int i = 0; i < 3 + random.nextInt(10); i++) {
      flows.add(flow());
    }
    intervals = harder(probes, intervals);
    for (int probe = 1; probe <= probes; probe++) {
      add(
          0,
          "prefix 10.%d.0.0/16 id=%d customer=%d site=s%d national"
              .formatted(probe, probe, probe, probe));
    }
    for (int probe = 1; probe <= probes; probe++) {
      String name = "p" + probe;
      int workers = 1 + random.nextInt(2);
      add(0, "declare %s site=s%d rank=%d".formatted(name, probe, 100 - random.nextInt(2)));
      add(0, "probe %s workers=%d partitions=%d".formatted(name, workers, workers));
      int rate = chance(0.2) ? 10 : 1;
      for (int worker = 0; worker < workers; worker++) {
        worker(name + "/" + worker, rate, intervals);
      }
    }
    int end = intervals * INTERVAL_S + silentS;
    int quiet = QUIET_S;
    boolean behind = has.contains(Property.CATCH_UPS) || has.contains(Property.STALLS);
    if (probes > 1 && chance(0.05) && !behind) { // a removed topic has no backlog
      String retired = "p" + (1 + random.nextInt(probes));
      double heard =
          lines.stream()
              .filter(line -> line.text().contains(" " + retired + "/"))
              .mapToDouble(Line::at)
              .max()
              .orElse(end);
      add(heard + 1 + random.nextInt(600), "retire " + retired);
      quiet = QUIET_S + FORGET_S;
    }
    double sent = Math.max(end, lines.stream().mapToDouble(Line::at).max().orElse(0));
    double down = 0;
    double caughtUp = 0;
    if (has.contains(Property.CATCH_UPS)) {
      double crash = harder.nextDouble() * end / 2;
      double checkpoint = Math.max(0, crash - harder.nextInt(30));
      int away = harder.nextInt(harder.nextBoolean() ? 3_600 : 600);
      add(checkpoint, "checkpoint");
      caughtUp = crash + away + pace(crash, "crash " + away + parallelism(), sent - checkpoint);
    } else if (has.contains(Property.STALLS)) {
      int still = 60 + harder.nextInt(840);
      double from = harder.nextDouble() * end;
      boolean atOnce = harder.nextBoolean();
      if (atOnce) {
        add(from, "stall " + still);
      }
      caughtUp = from + still + (atOnce ? 0 : pace(from, "stall " + still, sent - from));
    } else if (quiet == QUIET_S && chance(0.4)) { // nor one that is removed while the jobs are away
      double crash = random.nextDouble() * end;
      down = random.nextInt(chance(0.3) ? 1200 : 60);
      add(Math.max(0, crash - random.nextInt(30)), "checkpoint");
      add(crash, "crash " + (int) down + parallelism());
    } else {
      for (int i = random.nextInt(6); i > 0; i--) {
        add(random.nextDouble() * (end + QUIET_S), "stop-jobs" + parallelism());
      }
    }
    double last = lines.stream().mapToDouble(Line::at).max().orElse(0);
    double over = Math.max(Math.max(last, caughtUp), end + down) + quiet;
    add(Math.max(over, shown(sent) + KEPT_S), "now");
  }

  /** The latest time that the clock of an agent showed while it sent. */
  private double shown(double sent) {
    Map<String, Line> steps = new HashMap<>();
    double shown = 0;
    for (Line line : lines.stream().sorted(Comparator.comparingDouble(Line::at)).toList()) {
      String[] words = line.text().split(" ");
      if (words[0].equals("to")) {
        shown = Math.max(shown, shown(steps.put(words[1], line), line.at()));
      }
    }
    for (Line step : steps.values()) {
      shown = Math.max(shown, shown(step, sent));
    }
    return shown;
  }

  /** What a clock shows some time after a step. */
  private static double shown(Line step, double at) {
    return step == null ? 0 : Double.parseDouble(step.text().split(" ")[2]) + at - step.at();
  }

  /** Chooses what the properties do; returns the number of intervals. */
  private int harder(int probes, int intervals) {
    int last = intervals;
    if (has.contains(Property.CLOCK_STEPS)) {
      int from = 1 + harder.nextInt(4);
      int length = harder.nextInt(3) == 0 ? 30 : 1 + harder.nextInt(3);
      boolean back = harder.nextInt(4) == 0;
      int seconds = INTERVAL_S * (back ? -6 - harder.nextInt(54) : 50 + harder.nextInt(311));
      String probe = "p" + (1 + harder.nextInt(probes));
      boolean dies = !back && harder.nextInt(3) == 0;
      step = new Step(probe, from, from + length, seconds, harder.nextBoolean(), dies);
      last = Math.max(last, from + length + 6);
      if (!back) {
        // Nothing comes until about the time that the clock showed.
        silentFrom = from + length + 1 + harder.nextInt(3);
        silentS = Math.max(0, seconds - INTERVAL_S * (length + harder.nextInt(4)));
        last = Math.max(last, silentFrom + length + 6);
      }
    }
    if (has.contains(Property.LOWER_EPOCHS)) {
      ahead = "p" + (1 + harder.nextInt(probes));
      right = 2 + harder.nextInt(last - 4);
      saysLast = harder.nextInt(3) > 0;
    }
    if (has.contains(Property.SPOOLS)) {
      // More often for minutes than for hours.
      int until = (int) (600 * Math.pow(24, Math.pow(harder.nextDouble(), 2)));
      boolean all = harder.nextBoolean();
      for (int probe = 1; probe <= (all ? probes : 1); probe++) {
        away.put("p" + probe, until + 60 * (probe - 1));
      }
      last = Math.max(last, until / INTERVAL_S + 6);
    }
    return last;
  }

  /**
   * Adds a stop with the pace at which the jobs then read; returns for how long they do, at most.
   *
   * @param seconds of messages that they read
   */
  private double pace(double at, String stop, double seconds) {
    StringBuilder pace = new StringBuilder(stop);
    double speed = 0.5 * Math.pow(40, harder.nextDouble());
    pace.append(String.format(Locale.ROOT, " speed=%.2f", speed));
    int apart = harder.nextBoolean() ? 10 + harder.nextInt(51) : 0;
    pace.append(apart > 0 ? " apart=" + apart : "");
    double length = (seconds + apart) / speed;
    double all = length;
    for (int i = harder.nextInt(3); i > 0; i--) {
      int pause = 10 + harder.nextInt(51);
      pace.append(" pause=%d,%d".formatted(1 + harder.nextInt(1 + (int) length), pause));
      all += pause;
    }
    if (harder.nextInt(3) == 0) {
      int pause = 5 + harder.nextInt(56);
      pace.append(" restart=%d,%d".formatted(1 + harder.nextInt(1 + (int) length), pause));
      all += pause;
    }
    add(at, pace.toString());
    return all;
  }

  /** The number of subtasks with which the jobs restart, often one. */
  private String parallelism() {
    return restarts.nextInt(3) == 0 ? " " + (2 + restarts.nextInt(3)) : "";
  }

  /** One of the flows that probes see: between few hosts, so that they meet in lists. */
  private String flow() {
    int protocol = new int[] {6, 6, 6, 17, 17, 1}[random.nextInt(6)];
    String from = address();
    String to = address();
    int port = protocol == 1 ? 0 : 1024 + random.nextInt(4);
    int service = protocol == 1 ? 0 : new int[] {53, 80, 443}[random.nextInt(3)];
    return "%s:%d>%s:%d/%d".formatted(from, port, to, service, protocol);
  }

  private String address() {
    return chance(0.6)
        ? "10.%d.0.%d".formatted(1 + random.nextInt(3), 1 + random.nextInt(3))
        : "192.0.2." + (1 + random.nextInt(4));
  }

  /** The messages of one worker, by the agent's clock; delayed messages arrive later. */
  private void worker(String name, int rate, int intervals) {
    String probe = name.substring(0, name.indexOf('/'));
    double held = away.getOrDefault(probe, 0); // until then, nothing of this worker comes
    boolean calm = chance(0.3);
    double loss = calm ? 0 : 0.08;
    int begin = chance(0.2) ? random.nextInt(4) : 0;
    int end = chance(0.2) ? intervals - random.nextInt(4) : intervals;
    end = step == null ? end : step.end(probe, end);
    int start = begin * INTERVAL_S;
    // A clock that is wrong, seldom by much, unless it steps.
    int offset = chance(0.1) ? INTERVAL_S * (random.nextInt(13) - 6) : 0;
    boolean opened = false;
    boolean atEnd = chance(0.5);
    if (probe.equals(ahead)) {
      add(Math.max(held, start), "restart " + name + " ahead=7200");
    }
    for (int interval = begin; interval < end; interval++, start += INTERVAL_S) {
      int silence = interval == silentFrom ? silentS : 0;
      if (!calm && chance(0.01)) {
        silence = Math.max(silence, INTERVAL_S * random.nextInt(60));
      }
      if (silence > 0) {
        start += silence;
        opened = false;
      }
      int by = step == null ? 0 : step.at(probe, interval);
      offset += by;
      opened &= by == 0;
      int begins = probe.equals(ahead) ? Math.max(begin + 1, right) : -1;
      if (interval == begins || (step != null && step.begins(probe, interval))) {
        held = Math.max(held, start + 2) + 0.001;
        add(held, "restart " + name);
        opened = false;
      }
      if (!calm && chance(0.03)) {
        held = Math.max(held, start + random.nextInt(chance(0.3) ? 400 : 60));
      }
      // In the hours of a spool there is not much to see.
      int batches = interval > MANY && chance(0.8) ? 0 : random.nextInt(4);
      double at = start;
      for (int batch = 0; batch < batches; batch++) {
        // Agents publish in the course of an interval, or all at its end.
        double after = atEnd ? INTERVAL_S + batch * 0.1 : (batch + 1) * 2.0 + random.nextDouble();
        at = Math.max(held, start + after);
        if (!opened) {
          add(at, "to %s %d".formatted(name, start + offset));
          opened = true;
        }
        send(at, name, "batch", records(rate), loss);
      }
      if (!calm && chance(0.05)) {
        at = Math.max(Math.max(held, at), start + 9);
        if (!opened) {
          add(at, "to %s %d".formatted(name, start + offset));
          opened = true;
        }
        send(at, name, "overflow", " %d,%d".formatted(1 + random.nextInt(50), 2000), loss);
      }
      at = Math.max(held, start + INTERVAL_S + 0.5 + random.nextDouble() * 1.5);
      if (!opened) {
        add(at, "to %s %d".formatted(name, start + offset));
        opened = true;
      }
      if (chance(calm ? 1 : 0.9)) {
        add(at, "counters " + name + counters());
      }
      if (!calm && interval < end - 1 && chance(0.02)) {
        // Killed: the interval gets no closing record, and the next run begins with the next one.
        held = Math.max(held, at + 0.002); // an epoch is a time
        at = held;
        add(at, "restart " + name);
        add(at, "to %s %d".formatted(name, start + offset + INTERVAL_S));
        continue;
      }
      boolean last = interval == end - 1 && chance(0.5);
      last |= saysLast && interval == begins - 1;
      send(at, name, "close", (last ? " last" : "") + sums(calm), loss);
      if (!calm && chance(0.03) && sent.getOrDefault(name, 0) > 0) {
        add(
            at + random.nextInt(60),
            "repeat %s %d".formatted(name, random.nextInt(sent.get(name))));
      }
      if (!calm && chance(0.02)) {
        add(at, "raw %s %s".formatted(name, chance(0.5) ? "rubbish" : "major"));
      }
    }
  }

  /** A closing record's counts of packets that are in no record; rarely, these do not add up. */
  private String sums(boolean calm) {
    StringBuilder sums = new StringBuilder();
    for (String name : List.of("carried", "ring", "not-metered")) {
      sums.append(chance(0.2) ? " " + name + "=" + (1 + random.nextInt(20)) : "");
    }
    if (!calm && chance(0.01)) {
      sums.append(chance(0.5) ? " unbalanced=" : " unbalanced-octets=");
      sums.append(5_000 + random.nextInt(100));
    }
    if (!calm && chance(0.02)) {
      sums.append(" dropped=").append(1 + random.nextInt(50));
    }
    return sums.toString();
  }

  /** A message, which may be lost; a lost one may come late. */
  private void send(double at, String name, String action, String rest, double loss) {
    if (!chance(loss)) {
      add(at, "%s %s%s".formatted(action, name, rest));
      sent.merge(name, 1, Integer::sum);
      return;
    }
    add(at, "lost-%s %s%s".formatted(action, name, rest));
    int number = lost.merge(name, 1, Integer::sum) - 1;
    if (chance(0.7)) {
      double later = at + 1 + random.nextInt(chance(0.2) ? 420 : 90);
      add(later, "late %s %d".formatted(name, number));
    }
  }

  private String records(int rate) {
    StringBuilder records = new StringBuilder();
    for (int i = 1 + random.nextInt(4); i > 0; i--) {
      String flow = flows.get(random.nextInt(flows.size()));
      int forward = 1 + random.nextInt(20);
      int reverse = chance(0.6) ? random.nextInt(20) : 0;
      records.append(
          " %s %d,%d,%d,%d%s%s%s"
              .formatted(
                  flow,
                  forward,
                  forward * (40 + random.nextInt(1000)),
                  reverse,
                  reverse * (40 + random.nextInt(1000)),
                  chance(0.5) ? ";new" : "",
                  rate == 1 ? "" : ";sampled=" + rate,
                  flow.endsWith("/6") ? tcp() : ""));
    }
    return records.toString();
  }

  /** The additional fields of a TCP record. */
  private String tcp() {
    StringBuilder more = new StringBuilder();
    more.append(chance(0.3) ? ";syn=" + random.nextInt(4) + ",0" : "");
    more.append(chance(0.4) ? ";synack=0,1" : "");
    more.append(chance(0.2) ? ";fin=1,1" : "");
    more.append(chance(0.1) ? ";rst=0,1" : "");
    more.append(chance(0.05) ? ";guess" : "");
    more.append(chance(0.3) ? ";at=" + random.nextInt(10_000) : "");
    return more.toString();
  }

  /** Counters of an interval, without labels that counted nothing. */
  private String counters() {
    StringBuilder counters = new StringBuilder();
    for (String label : List.of("web/in", "web/out", "mail/in", "size/64")) {
      if (label.equals("web/in") || chance(0.6)) {
        int packets = 1 + random.nextInt(100);
        counters.append(" %s=%d,%d".formatted(label, packets, packets * 100));
      }
    }
    return counters.toString();
  }
}
