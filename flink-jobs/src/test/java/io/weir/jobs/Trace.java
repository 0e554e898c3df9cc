package io.weir.jobs;

import com.google.protobuf.ByteString;
import com.google.protobuf.TextFormat;
import io.weir.jobs.message.Enrolment;
import io.weir.jobs.message.RawMessage;
import io.weir.jobs.source.ClockCheck;
import io.weir.proto.Alert;
import io.weir.proto.CauseVolume;
import io.weir.proto.ClosingRecord;
import io.weir.proto.Conservation;
import io.weir.proto.CounterMessage;
import io.weir.proto.Flow;
import io.weir.proto.FlowBatch;
import io.weir.proto.FlowMessage;
import io.weir.proto.InterfaceCounters;
import io.weir.proto.Overflow;
import io.weir.proto.Prefix;
import io.weir.proto.Probe;
import io.weir.proto.RecordKind;
import io.weir.proto.Rule;
import io.weir.proto.Severity;
import io.weir.proto.Volume;
import java.io.IOException;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.ToLongFunction;
import java.util.stream.IntStream;

/**
 * A job's input, in readable form. Each line is a time (seconds after {@link #BASE_MS}), what
 * happens then, and to which worker:
 *
 * <pre>
 *   0  probe alpha partitions=2 workers=2       enrols a probe; its list is polled every 5 s from then on
 *   1  retire alpha                            the probe's topics are removed; if it is enrolled again, offsets begin anew
 *   3  batch alpha/0 SRC:PORT>DST:PORT/PROTOCOL FWD_PACKETS,FWD_OCTETS,REV_PACKETS,REV_OCTETS[;...] ...
 *                                               ;syn=FWD,REV and synack, fin, rst, icmp, icmp-udp likewise; ;guess ;new
 *                                               ;app=N ;sampled=N ;at=MS after the interval's start
 *                                               ;ports=N: such a flow from each of N source ports, from PORT on
 *                                               ;senders=N ;hosts=N ;dst-ports=N likewise for sources, destinations and their ports
 *   4  overflow alpha/0 PACKETS,OCTETS          a batch of one overflow record
 *   4  reports alpha/0 TEXT                     a batch in protobuf's text format
 *   10 close alpha/0 [last] [gap=N] [skip=N] [source=S] [not-metered=N] [interface=PACKETS,OCTETS]
 *                    [dropped=N] [queue=OCTETS] [spool=OCTETS] [clock-offset-us=N] [unbalanced=N]
 *                    [carried=N]: packets that wait for the next interval  [ring=N]: packets that the agent has not taken yet
 *                    [unbalanced-octets=N]
 *   11 counters alpha/0 SET/LABEL=PACKETS,OCTETS ...
 *   11 alert alpha/0 ID [REASON] [PROBE]        an alert of the agent, in the name of PROBE
 *   12 repeat alpha/0 N                         message N (from 0) of the partition comes again
 *   13 restart alpha/0 [ahead=SECONDS]          the agent's worker begins a new run, with an epoch by a clock that is ahead
 *   14 raw alpha/0 cause TEXT                   a malformed message; or `raw alpha/0 major`, `probe`, `worker`, `port`
 *   15 prefix 10.0.0.0/8 [id=N] [customer=N] [site=S] [national]     is declared from now on
 *   15 declare alpha [site=S] [rank=N] [one-way]                     declares a probe
 *   15 rule DETECTOR [off] [severity=N] [prefix=P] [probe=P] [PARAMETER=VALUE ...]     is in force from now on
 *   15 to alpha/0 SECONDS                       the worker's open interval begins at SECONDS, whatever the clock says
 *   16 behind alpha/0 N                         N messages come to the partition, and are not read
 *   0  window-entries N                         maximum number of entries in all windows
 *   0  seldom-barriers                          barriers come with the lists of probes, not with every message
 *   49 jobs-clock SECONDS                       the clock of the jobs' host is ahead of all others from now on
 *   50 now                                      time passes
 *   51 stop-jobs [N]                            the jobs stop, and start again from their state, with N subtasks
 *   52 checkpoint                               a checkpoint, from which the jobs start after the next crash
 *   53 crash SECONDS [N] [PACE]                 the jobs end, and start again after SECONDS
 *   54 stall SECONDS [PACE]                     the jobs run, and read nothing for SECONDS
 * </pre>
 *
 * A line whose action begins with {@code lost-} counts for the agent, but its message does not
 * come; {@code late} N brings the Nth lost message of the partition. The agent's sequences, sums
 * and closing records are computed automatically.
 *
 * <p>A PACE says how the jobs read what came meanwhile ({@link Reading.Pace}); without one they do
 * in an instant.
 */
final class Trace {
  /** 2026-01-01T00:00:00Z. */
  static final long BASE_MS = 1_767_225_600_000L;

  private static final Map<String, Stop> STOPS =
      Map.of(
          "stop-jobs",
          Stop.ORDERLY,
          "checkpoint",
          Stop.CHECKPOINT,
          "crash",
          Stop.CRASH,
          "stall",
          Stop.STALL);

  private static final int INTERVAL_MS = 10_000;
  private static final long POLL_MS = 5_000;

  /** How jobs stop, or stop reading. */
  enum Stop {
    ORDERLY,
    CHECKPOINT,
    CRASH,
    STALL
  }

  /**
   * An event: a message, a list of probes or a stop of the jobs, with the time until they are back,
   * the number of subtasks from then on, and the pace at which they read what came meanwhile; if it
   * is none of these, only time passes.
   */
  record Event(
      long at,
      RawMessage message,
      Enrolment enrolment,
      Stop stop,
      long downMs,
      int parallelism,
      Reading.Pace pace) {
    Event(long at, RawMessage message, Enrolment enrolment) {
      this(at, message, enrolment, null, 0, 1, Reading.Pace.AT_ONCE);
    }

    /** Jobs that stop, and start from their state after {@code downMs}. */
    static Event stop(long at, long downMs, int parallelism) {
      return new Event(at, null, null, Stop.ORDERLY, downMs, parallelism, Reading.Pace.AT_ONCE);
    }

    /** The same event at another time. */
    Event at(long ms) {
      return new Event(ms, message, enrolment, stop, downMs, parallelism, pace);
    }

    /** The same event by a clock that is ahead, which a list of probes then tells, too. */
    Event ahead(long ms) {
      Enrolment list =
          enrolment == null
              ? null
              : new Enrolment(enrolment.at() + ms, enrolment.probes(), enrolment.ahead());
      return new Event(at + ms, message, list, stop, downMs, parallelism, pace);
    }

    /** The same event, with a list of probes only if its clock is believed. */
    Event doubted(ClockCheck check, long running) {
      if (enrolment == null || check.check(enrolment, running).isBelieved()) {
        return this;
      }
      return new Event(at, message, null, stop, downMs, parallelism, pace);
    }

    /** The partition of a message, with its topic. */
    String partition() {
      return message.topic() + "/" + message.partition();
    }
  }

  /** What Kafka has of a partition. */
  private static final class Partition {
    /** The offset of the next message. */
    long end;

    /** When the newest message came, ms from 1970; 0 if none did. */
    long newest;
  }

  private static final class Worker {
    long epoch;
    long sequence;
    long counterSequence;
    long first;
    long start;
    long packets;
    long octets;
    long overflowPackets;
    long overflowOctets;
    int records;
    boolean opened = true;
    Conservation.Builder total = Conservation.newBuilder();

    /** Packets of the last interval that waited in the agent, and before it. */
    long carried;

    long ring;
    long interfacePackets;
    long interfaceOctets;
    final List<RawMessage> sent = new ArrayList<>();
    final List<RawMessage> lost = new ArrayList<>();
  }

  private final List<Event> events = new ArrayList<>();
  private final Map<String, Worker> workers = new TreeMap<>();
  private final Map<String, Integer> probes = new TreeMap<>();
  private final Map<String, Integer> agents = new HashMap<>();

  /** By topic with partition. */
  private final Map<String, Partition> appended = new HashMap<>();

  private long polled = Long.MIN_VALUE;

  static List<Event> read(Path file) throws IOException {
    return read("" + file, Files.readAllLines(file));
  }

  /** Maximum number of entries in windows. */
  static int windowEntries(List<String> lines) {
    for (String line : lines) {
      String[] words = line.split("\\s+");
      if (words.length == 3 && words[1].equals("window-entries")) {
        return Integer.parseInt(words[2]);
      }
    }
    return 1_000_000;
  }

  /** Whether barriers come only occasionally. */
  static boolean seldomBarriers(List<String> lines) {
    return lines.stream().anyMatch(line -> line.endsWith(" seldom-barriers"));
  }

  /** By how many ms the clock of the jobs' host is ahead, from which time on. */
  static TreeMap<Long, Long> jobsClock(List<String> lines) {
    TreeMap<Long, Long> ahead = new TreeMap<>();
    ahead.put(Long.MIN_VALUE, 0L);
    for (String line : lines) {
      String[] words = line.strip().split("\\s+");
      if (words.length > 2 && words[1].equals("jobs-clock")) {
        ahead.put(ms(words[0]), 1000 * Long.parseLong(words[2]));
      }
    }
    return ahead;
  }

  /** A time of a line, ms from 1970. */
  private static long ms(String seconds) {
    return BASE_MS + (long) (Double.parseDouble(seconds) * 1000);
  }

  /** The events of the lines; {@code name} identifies their origin in errors. */
  static List<Event> read(String name, List<String> lines) throws IOException {
    Trace trace = new Trace();
    for (String line : lines) {
      String text = line.replaceAll("#.*", "").strip();
      if (!text.isEmpty()) {
        try {
          trace.line(text.split("\\s+"));
        } catch (RuntimeException | IOException e) {
          throw new IOException(name + ": " + line, e);
        }
      }
    }
    return trace.events;
  }

  private void line(String[] words) throws IOException {
    long at = ms(words[0]);
    poll(at);
    String action = words[1];
    List<String> rest = Arrays.asList(words).subList(Math.min(3, words.length), words.length);
    if (List.of("now", "window-entries", "seldom-barriers", "jobs-clock").contains(action)) {
      events.add(new Event(at, null, null));
      return;
    }
    Stop stop = STOPS.get(action);
    if (stop != null) {
      boolean away = stop == Stop.CRASH || stop == Stop.STALL;
      int number = away ? 3 : 2;
      long down = away ? Long.parseLong(words[2]) * 1000 : 0;
      boolean several = words.length > number && words[number].matches("\\d+");
      int parallelism = several ? Integer.parseInt(words[number]) : 1;
      Reading.Pace pace = Reading.Pace.of(Arrays.asList(words));
      events.add(new Event(at, null, null, stop, down, parallelism, pace));
      return;
    }
    if (action.equals("prefix")) {
      add(at, new RawMessage("weir.prefixes", 0, -1, at, prefix(words[2], rest)));
      return;
    }
    if (action.equals("declare")) {
      add(at, new RawMessage("weir.probes", 0, -1, at, declaration(words[2], rest)));
      return;
    }
    if (action.equals("rule")) {
      add(at, new RawMessage("weir.rules", 0, -1, at, rule(words[2], rest)));
      return;
    }
    if (action.equals("probe")) {
      int partitions = Integer.parseInt(option(rest, "partitions", "1"));
      probes.put(words[2], partitions);
      agents.put(words[2], Integer.parseInt(option(rest, "workers", "" + partitions)));
      polled = Long.MIN_VALUE;
      poll(at);
      return;
    }
    if (action.equals("retire")) {
      probes.remove(words[2]);
      appended.keySet().removeIf(partition -> partition.matches(".*\\." + words[2] + "/\\d+"));
      return;
    }
    boolean lost = action.startsWith("lost-");
    String probe = words[2].substring(0, words[2].indexOf('/'));
    int number = Integer.parseInt(words[2].substring(words[2].indexOf('/') + 1));
    Worker worker = workers.computeIfAbsent(words[2], key -> begin(at, number));
    switch (lost ? action.substring(5) : action) {
      case "batch" -> send(at, lost, probe, number, worker, batch(probe, number, worker, rest));
      case "overflow" ->
          send(at, lost, probe, number, worker, overflow(probe, number, worker, rest));
      case "reports" -> send(at, lost, probe, number, worker, reports(probe, number, worker, rest));
      case "close" -> {
        FlowMessage closing = close(probe, number, worker, rest);
        send(at, lost, probe, number, worker, closing);
        worker.start += INTERVAL_MS * (1 + Long.parseLong(option(rest, "skip-after", "0")));
      }
      case "skip" -> worker.start += INTERVAL_MS * Long.parseLong(rest.get(0));
      case "restart" -> {
        Worker next = begin(at, number);
        next.epoch += 1_000_000 * Long.parseLong(option(rest, "ahead", "0"));
        next.sent.addAll(worker.sent);
        next.lost.addAll(worker.lost);
        next.counterSequence = 0;
        workers.put(words[2], next);
      }
      case "to" -> worker.start = BASE_MS + 1000 * Long.parseLong(rest.get(0));
      case "behind" ->
          append(at, "weir.flows." + probe + "/" + number, Integer.parseInt(rest.get(0)));
      case "counters" -> counters(at, probe, number, worker, rest);
      case "alert" -> alert(at, probe, worker, rest);
      case "repeat" -> add(at, worker.sent.get(Integer.parseInt(rest.get(0))));
      case "late" -> add(at, worker.lost.get(Integer.parseInt(rest.get(0))));
      case "raw" -> raw(at, probe, number, worker, rest);
      default -> throw new IOException("no such action: " + action);
    }
  }

  private static byte[] prefix(String text, List<String> words) {
    return Prefix.newBuilder()
        .setMajor(1)
        .setPrefix(text)
        .setId(Integer.parseInt(option(words, "id", "0")))
        .setCustomerId(Integer.parseInt(option(words, "customer", "0")))
        .setSite(option(words, "site", ""))
        .setNational(words.contains("national"))
        .build()
        .toByteArray();
  }

  private static byte[] rule(String detector, List<String> words) {
    Rule.Builder rule = Rule.newBuilder().setMajor(1).setName(detector).setDetector(detector);
    for (String word : words) {
      String name = word.replaceAll("=.*", "");
      String value = word.replaceAll(".*=", "");
      switch (name) {
        case "off" -> rule.setOff(true);
        case "severity" -> rule.setSeverityValue(Integer.parseInt(value));
        case "prefix" -> rule.addPrefixes(value).setName(detector + " " + value);
        case "probe" -> rule.addProbes(value).setName(detector + " " + value);
        default -> rule.putParameters(name, Double.parseDouble(value));
      }
    }
    return rule.build().toByteArray();
  }

  private static byte[] declaration(String probe, List<String> words) {
    return Probe.newBuilder()
        .setMajor(1)
        .setName(probe)
        .setSite(option(words, "site", ""))
        .setRank(Integer.parseInt(option(words, "rank", "100")))
        .setOneWay(words.contains("one-way"))
        .build()
        .toByteArray();
  }

  private static Worker begin(long at, int number) {
    Worker worker = new Worker();
    worker.epoch = at * 1000 + number;
    worker.start = at / INTERVAL_MS * INTERVAL_MS;
    return worker;
  }

  private void poll(long until) {
    if (probes.isEmpty()) {
      return;
    }
    long first = polled == Long.MIN_VALUE ? until : polled + POLL_MS;
    for (long at = first; at <= until; at += POLL_MS) {
      List<Enrolment.Probe> list = new ArrayList<>();
      probes.forEach((name, partitions) -> list.add(enrolled(name, partitions)));
      events.add(new Event(at, null, new Enrolment(at, list)));
      polled = at;
    }
  }

  /** A probe as Kafka lists it now. */
  private Enrolment.Probe enrolled(String name, int partitions) {
    String flows = "weir.flows." + name;
    return new Enrolment.Probe(
        name,
        new long[partitions],
        numbers(flows, partitions, partition -> partition.end),
        numbers(flows, partitions, partition -> partition.newest),
        numbers("weir.counters." + name, partitions, partition -> partition.end),
        numbers("weir.counters." + name, partitions, partition -> partition.newest));
  }

  /** A number of each partition of a topic. */
  private long[] numbers(String topic, int partitions, ToLongFunction<Partition> number) {
    return IntStream.range(0, partitions)
        .mapToObj(i -> appended.getOrDefault(topic + "/" + i, new Partition()))
        .mapToLong(number)
        .toArray();
  }

  /** Notes that Kafka receives messages; returns the offset of the first. */
  private long append(long at, String partition, int messages) {
    Partition of = appended.computeIfAbsent(partition, key -> new Partition());
    of.end += messages;
    of.newest = at;
    return of.end - messages;
  }

  private void send(
      long at, boolean lost, String probe, int number, Worker worker, FlowMessage message) {
    RawMessage raw = new RawMessage("weir.flows." + probe, number, -1, at, message.toByteArray());
    if (lost) {
      worker.lost.add(raw);
    } else {
      worker.sent.add(raw);
      add(at, raw);
    }
  }

  private void add(long at, RawMessage raw) {
    long offset = append(at, raw.topic() + "/" + raw.partition(), 1);
    events.add(
        new Event(at, new RawMessage(raw.topic(), raw.partition(), offset, at, raw.value()), null));
  }

  private static FlowMessage.Builder header(String probe, int number, Worker worker) {
    return header(probe, number, worker, worker.sequence++);
  }

  private static FlowMessage.Builder header(
      String probe, int number, Worker worker, long sequence) {
    return FlowMessage.newBuilder()
        .setMajor(1)
        .setProbe(probe)
        .setWorker(number)
        .setEpoch(worker.epoch)
        .setSequence(sequence)
        .setIntervalStartMs(worker.start)
        .setIntervalMs(INTERVAL_MS);
  }

  private static FlowMessage reports(String probe, int number, Worker worker, List<String> words)
      throws IOException {
    FlowBatch batch = TextFormat.parse(String.join(" ", words), FlowBatch.class);
    return header(probe, number, worker).setBatch(batch).build();
  }

  private static FlowMessage batch(String probe, int number, Worker worker, List<String> words)
      throws IOException {
    FlowBatch.Builder batch = FlowBatch.newBuilder();
    for (int i = 0; i + 1 < words.size(); i += 2) {
      String[] ends = words.get(i).split("[>/]");
      String[] parts = words.get(i + 1).split(";");
      long[] counts = numbers(parts[0]);
      Flow.Builder flow =
          Flow.newBuilder()
              .setSrcAddr(address(ends[0]))
              .setSrcPort(port(ends[0]))
              .setDstAddr(address(ends[1]))
              .setDstPort(port(ends[1]))
              .setProtocol(Integer.parseInt(ends[2]))
              .setIpVersion(ends[0].contains("[") ? 6 : 4)
              .setFwdPackets(counts[0])
              .setFwdOctets(counts[1])
              .setRevPackets(counts[2])
              .setRevOctets(counts[3])
              .setFirstSeenOffsetMs(100 + i)
              .setLastSeenOffsetMs(1000)
              .setFlowAgeMs(50);
      if (ends[2].equals("6")) {
        flow.setFwdTcpSyn(1).setServerName("example.org");
      }
      for (String part : Arrays.asList(parts).subList(1, parts.length)) {
        detail(flow, part.substring(0, (part + "=").indexOf('=')), part.replaceAll(".*=", ""));
      }
      int flows = 0;
      for (Flow each : alike(flow, Arrays.asList(parts))) {
        batch.addFlows(each);
        flows++;
      }
      worker.packets += flows * (counts[0] + counts[2]);
      worker.octets += flows * (counts[1] + counts[3]);
      worker.records += flows;
    }
    return header(probe, number, worker).setBatch(batch).build();
  }

  /** A flow from each of several ports or sources, or to each of several destinations or ports. */
  private static List<Flow> alike(Flow.Builder flow, List<String> parts) {
    List<Flow> flows = new ArrayList<>();
    int ports = Integer.parseInt(option(parts, "ports", "1"));
    int senders = Integer.parseInt(option(parts, "senders", "1"));
    int hosts = Integer.parseInt(option(parts, "hosts", "1"));
    int dstPorts = Integer.parseInt(option(parts, "dst-ports", "1"));
    for (int i = 0; i < Math.max(Math.max(ports, senders), Math.max(hosts, dstPorts)); i++) {
      flows.add(flow.build());
      flow.setSrcPort(flow.getSrcPort() + (ports > 1 ? 1 : 0));
      flow.setDstPort(flow.getDstPort() + (dstPorts > 1 ? 1 : 0));
      flow.setSrcAddr(senders > 1 ? next(flow.getSrcAddr()) : flow.getSrcAddr());
      flow.setDstAddr(hosts > 1 ? next(flow.getDstAddr()) : flow.getDstAddr());
    }
    return flows;
  }

  /** The address after this one. */
  private static ByteString next(ByteString address) {
    byte[] octets = address.toByteArray();
    for (int at = octets.length - 1; at >= 0 && ++octets[at] == 0; at--) {
      // carries
    }
    return ByteString.copyFrom(octets);
  }

  private static void detail(Flow.Builder flow, String name, String value) throws IOException {
    long[] both = name.matches("guess|new") ? new long[1] : numbers(value);
    switch (name) {
      case "syn" -> flow.setFwdTcpSyn(both[0]).setRevTcpSyn(both[1]);
      case "synack" -> flow.setFwdTcpSynack(both[0]).setRevTcpSynack(both[1]);
      case "fin" -> flow.setFwdTcpFin(both[0]).setRevTcpFin(both[1]);
      case "rst" -> flow.setFwdTcpRst(both[0]).setRevTcpRst(both[1]);
      case "icmp" -> flow.setFwdIcmpErrors(both[0]).setRevIcmpErrors(both[1]);
      case "icmp-udp" -> flow.setFwdIcmpErrorsUdp(both[0]).setRevIcmpErrorsUdp(both[1]);
      case "guess" -> flow.setInitiatorGuess(true);
      case "new" -> flow.setFlowAgeMs(0);
      case "app" -> flow.setApplicationId((int) both[0]);
      case "sampled" -> flow.setSamplingRate((int) both[0]);
      case "at" -> flow.setFirstSeenOffsetMs(both[0]);
      case "ports", "senders", "hosts", "dst-ports" -> {} // read by the caller
      default -> throw new IOException("no such detail of a flow: " + name);
    }
  }

  private static FlowMessage overflow(String probe, int number, Worker worker, List<String> words) {
    long[] counts = numbers(words.get(0));
    worker.overflowPackets += counts[0];
    worker.overflowOctets += counts[1];
    worker.records++;
    Flow flow =
        Flow.newBuilder()
            .setRecordKind(RecordKind.RECORD_KIND_OVERFLOW)
            .setProtocol(17)
            .setIpVersion(4)
            .setFwdPackets(counts[0])
            .setFwdOctets(counts[1])
            .setOverflow(
                Overflow.newBuilder()
                    .setKey(Overflow.Key.KEY_PROTOCOL_AND_DIRECTION)
                    .setInbound(true)
                    .setDistinctSketch(ByteString.copyFromUtf8("sketch")))
            .build();
    return header(probe, number, worker).setBatch(FlowBatch.newBuilder().addFlows(flow)).build();
  }

  private FlowMessage close(String probe, int number, Worker worker, List<String> words) {
    long other = Long.parseLong(option(words, "not-metered", "0"));
    long dropped = Long.parseLong(option(words, "dropped", "0"));
    Conservation interval =
        conservation(
            worker.packets,
            worker.octets,
            worker.overflowPackets,
            worker.overflowOctets,
            other,
            dropped);
    Conservation total = worker.total.build();
    worker.total =
        conservation(
            total.getInFlowRecords().getPackets() + worker.packets,
            total.getInFlowRecords().getOctets() + worker.octets,
            total.getInOverflowRecords().getPackets() + worker.overflowPackets,
            total.getInOverflowRecords().getOctets() + worker.overflowOctets,
            sum(total) + other,
            (total.getDroppedCount() == 0 ? 0 : total.getDropped(0).getPackets()) + dropped)
            .toBuilder();
    ClosingRecord.Builder closing =
        ClosingRecord.newBuilder()
            .setFirstSequence(worker.first)
            .setBatches((int) (worker.sequence - worker.first))
            .setRecords(worker.records)
            .setInterval(interval)
            .setEpochTotal(worker.total)
            .setWorkers(agents.getOrDefault(probe, 1))
            .setFirst(worker.opened)
            .setLast(words.contains("last"))
            .setGapPackets(Long.parseLong(option(words, "gap", "0")))
            .setSkippedIntervals(Long.parseLong(option(words, "skipped", "0")))
            .setSource(option(words, "source", "af_packet:eth0"))
            .setAgentVersion("1.0");
    closing
        .getLoadBuilder()
        .setPublishQueueOctets(Long.parseLong(option(words, "queue", "0")))
        .setSpoolOctets(Long.parseLong(option(words, "spool", "0")));
    String offset = option(words, "clock-offset-us", "");
    if (!offset.isEmpty()) {
      closing.setClockOffsetUs(Long.parseLong(offset));
    }
    waiting(closing.getIntervalBuilder(), worker, words);
    long unbalanced = Long.parseLong(option(words, "unbalanced", "0"));
    if (unbalanced > 0) {
      closing.getIntervalBuilder().getCarriedOutBuilder().setPackets(unbalanced);
    }
    long octets = Long.parseLong(option(words, "unbalanced-octets", "0"));
    if (octets > 0) {
      closing.getIntervalBuilder().getCarriedOutBuilder().setOctets(octets);
    }
    String counters = option(words, "interface", "");
    if (!counters.isEmpty()) {
      long[] counts = numbers(counters);
      worker.interfacePackets += counts[0];
      worker.interfaceOctets += counts[1];
      closing.addInterfaces(
          InterfaceCounters.newBuilder()
              .setName("eth0")
              .setRxPackets(worker.interfacePackets)
              .setRxOctets(worker.interfaceOctets));
    }
    FlowMessage message = header(probe, number, worker).setClosing(closing).build();
    worker.first = worker.sequence;
    worker.packets = 0;
    worker.octets = 0;
    worker.overflowPackets = 0;
    worker.overflowOctets = 0;
    worker.records = 0;
    worker.opened = false;
    return message;
  }

  /**
   * Packets that wait beyond the close, and those that waited before: fragments that end without a
   * flow.
   */
  private static void waiting(Conservation.Builder sums, Worker worker, List<String> words) {
    long carried = Long.parseLong(option(words, "carried", "0"));
    long ring = Long.parseLong(option(words, "ring", "0"));
    long in = worker.carried;
    sums.getCapturedBuilder()
        .setPackets(sums.getCaptured().getPackets() + carried)
        .setOctets(sums.getCaptured().getOctets() + 60 * carried);
    sums.getOnInterfaceBuilder()
        .setPackets(sums.getOnInterface().getPackets() + carried + ring - worker.ring);
    if (in > 0) {
      sums.setCarriedIn(volume(in, 60 * in));
      sums.addNotMetered(
          CauseVolume.newBuilder().setCause("fragment_expired").setVolume(volume(in, 60 * in)));
    }
    if (carried > 0) {
      sums.setCarriedOut(volume(carried, 60 * carried));
    }
    if (ring > 0) {
      sums.setInRingPackets(ring);
    }
    worker.carried = carried;
    worker.ring = ring;
  }

  private static long sum(Conservation total) {
    return total.getNotMeteredCount() == 0 ? 0 : total.getNotMetered(0).getVolume().getPackets();
  }

  private static Conservation conservation(
      long packets,
      long octets,
      long overflowPackets,
      long overflowOctets,
      long other,
      long dropped) {
    Conservation.Builder sums =
        Conservation.newBuilder()
            .setOnInterface(volume(packets + overflowPackets + other + dropped, 0))
            .setCaptured(
                volume(packets + overflowPackets + other, octets + overflowOctets + 60 * other))
            .setInFlowRecords(volume(packets, octets))
            .setInOverflowRecords(volume(overflowPackets, overflowOctets));
    if (other > 0) {
      sums.addNotMetered(
          CauseVolume.newBuilder().setCause("not_ip").setVolume(volume(other, 60 * other)));
    }
    if (dropped > 0) {
      sums.addDroppedBuilder().setCause("ring").setPackets(dropped);
    }
    return sums.build();
  }

  private void counters(long at, String probe, int number, Worker worker, List<String> words) {
    CounterMessage.Builder message =
        CounterMessage.newBuilder()
            .setMajor(1)
            .setProbe(probe)
            .setWorker(number)
            .setEpoch(worker.epoch)
            .setSequence(worker.counterSequence++)
            .setIntervalStartMs(worker.start)
            .setIntervalMs(INTERVAL_MS);
    for (String word : words) {
      String[] parts = word.split("[/=]");
      long[] counts = numbers(parts[2]);
      message
          .addCountersBuilder()
          .setSet(parts[0])
          .setLabel(parts[1])
          .setPackets(counts[0])
          .setOctets(counts[1]);
    }
    RawMessage raw =
        new RawMessage("weir.counters." + probe, number, -1, at, message.build().toByteArray());
    worker.sent.add(raw);
    add(at, raw);
  }

  private void alert(long at, String probe, Worker worker, List<String> words) {
    Alert alert =
        Alert.newBuilder()
            .setMajor(1)
            .setId(words.get(0))
            .setReason(words.size() > 1 ? words.get(1) : "order_refused")
            .setProbe(words.size() > 2 ? words.get(2) : probe)
            .setSeverity(Severity.SEVERITY_WARNING)
            .setOpenedMs(worker.start)
            .setUpdatedMs(at)
            .build();
    RawMessage raw = new RawMessage("weir.alerts." + probe, 0, -1, at, alert.toByteArray());
    worker.sent.add(raw);
    add(at, raw);
  }

  private void raw(long at, String probe, int number, Worker worker, List<String> words) {
    FlowMessage.Builder good =
        header(probe, number, worker, 999).setBatch(FlowBatch.getDefaultInstance());
    Flow flow = Flow.newBuilder().setDstPort(70_000).build();
    byte[] value =
        switch (words.get(0)) {
          case "major" -> good.setMajor(2).build().toByteArray();
          case "probe" -> good.setProbe("other").build().toByteArray();
          case "worker" -> good.setWorker(number + 1).build().toByteArray();
          case "interval" -> good.setIntervalMs(0).build().toByteArray();
          case "body" -> good.clearBody().build().toByteArray();
          case "port" -> good.setBatch(FlowBatch.newBuilder().addFlows(flow)).build().toByteArray();
          case "empty" -> new byte[0];
          case "newer-minor" ->
              good.setMinor(9)
                  .setSequence(worker.sequence++)
                  .setUnknownFields(
                      com.google.protobuf.UnknownFieldSet.newBuilder()
                          .addField(
                              77,
                              com.google.protobuf.UnknownFieldSet.Field.newBuilder()
                                  .addVarint(1)
                                  .build())
                          .build())
                  .build()
                  .toByteArray();
          default -> words.get(0).getBytes(StandardCharsets.UTF_8);
        };
    add(at, new RawMessage("weir.flows." + probe, number, -1, at, value));
  }

  private static Volume volume(long packets, long octets) {
    return Volume.newBuilder().setPackets(packets).setOctets(octets).build();
  }

  private static String option(List<String> words, String name, String otherwise) {
    for (String word : words) {
      if (word.startsWith(name + "=")) {
        return word.substring(name.length() + 1);
      }
    }
    return otherwise;
  }

  private static long[] numbers(String text) {
    return Arrays.stream(text.split(",")).mapToLong(Long::parseLong).toArray();
  }

  private static ByteString address(String end) throws IOException {
    String host = end.substring(0, end.lastIndexOf(':'));
    return ByteString.copyFrom(InetAddress.getByName(host).getAddress());
  }

  private static int port(String end) {
    return Integer.parseInt(end.substring(end.lastIndexOf(':') + 1));
  }

  /** Seconds after the base, for people. */
  static String seconds(long ms) {
    return ms == 0 ? "0" : Instant.ofEpochMilli(ms).toString().substring(11);
  }
}
