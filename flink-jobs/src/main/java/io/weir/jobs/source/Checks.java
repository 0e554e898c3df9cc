package io.weir.jobs.source;

import com.google.protobuf.ByteString;
import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Parser;
import io.weir.jobs.message.Accepted;
import io.weir.jobs.message.AgentAlert;
import io.weir.jobs.message.RawMessage;
import io.weir.proto.Alert;
import io.weir.proto.ClosingRecord;
import io.weir.proto.Counter;
import io.weir.proto.CounterMessage;
import io.weir.proto.ExporterCounters;
import io.weir.proto.ExporterName;
import io.weir.proto.Flow;
import io.weir.proto.FlowBatch;
import io.weir.proto.FlowMessage;
import io.weir.proto.NatEvent;
import io.weir.proto.Severity;
import java.io.IOException;
import java.util.Map;
import java.util.regex.Pattern;

/**
 * Checks whether the jobs can process a message. The causes, which are the first words of a dead
 * letter's header {@code weir-cause}: {@code empty}, {@code malformed} (not the protobuf it should
 * be), {@code major} (of a newer schema, or of none), {@code wrong_probe}, {@code wrong_worker}
 * (not those of its topic and partition), {@code no_body}, {@code bad_interval}, {@code bad_record}
 * (a value that its column cannot hold).
 */
final class Checks {
  /** The version of the schema that the jobs read. */
  static final int MAJOR = 1;

  /** Characters in the name of a set or label; agents allow 63. */
  private static final int MAX_NAME = 255;

  /** Octets of an agent's alert. */
  private static final int MAX_ALERT = 4 << 10;

  /** Characters of an alert's text. */
  private static final int MAX_TEXT = 1_000;

  /** Number of an alert's values. */
  private static final int MAX_VALUES = 16;

  /** How long ago an agent's alert may have begun: the table has a partition for each day. */
  private static final long OLDEST_MS = 31L * 86_400_000;

  /** By how much an agent's clock may be ahead. */
  private static final long AHEAD_MS = 86_400_000;

  /** Number of an alert's peers, and of its ports. */
  private static final int MAX_EVIDENCE = 10;

  private static final Pattern KIND = Pattern.compile("[a-z]{0,15}");
  private static final Pattern TECHNIQUE = Pattern.compile("(T[0-9]{4}(\\.[0-9]{3})?)?");
  private static final Pattern ADDRESS = Pattern.compile("[0-9a-f:.]{2,45}");
  private static final Pattern WORD = Pattern.compile("[a-z][a-z0-9_]{0,62}");

  /** A message is unreadable; the text is the cause. */
  static final class Refused extends Exception {
    private static final long serialVersionUID = 1;

    Refused(String cause) {
      super(cause, null, false, false);
    }
  }

  private Checks() {}

  static Accepted flows(RawMessage raw) throws Refused {
    FlowMessage message = parsed(FlowMessage.parser(), FlowMessage.getDescriptor(), raw);
    header(raw, TopicKind.FLOWS, message.getMajor(), message.getProbe(), message.getWorker());
    interval(message.getIntervalStartMs(), message.getIntervalMs());
    switch (message.getBodyCase()) {
      case BATCH -> {
        FlowBatch batch = message.getBatch();
        for (Flow flow : batch.getFlowsList()) {
          RecordChecks.check(flow);
        }
        for (NatEvent event : batch.getNatEventsList()) {
          RecordChecks.check(event);
        }
        for (ExporterCounters counters : batch.getInterfaceCountersList()) {
          RecordChecks.check(counters);
        }
        for (ExporterName name : batch.getNamesList()) {
          RecordChecks.check(name);
        }
      }
      case CLOSING -> {
        ClosingRecord closing = message.getClosing();
        if (closing.getFirstSequence() + Integer.toUnsignedLong(closing.getBatches())
            != message.getSequence()) {
          throw new Refused(
              "bad_record: closing record "
                  + message.getSequence()
                  + " does not follow its batches "
                  + closing.getFirstSequence()
                  + " + "
                  + closing.getBatches());
        }
        long skipped = closing.getSkippedIntervals();
        if (skipped < 0 || skipped > message.getIntervalStartMs() / message.getIntervalMs()) {
          throw new Refused("bad_record: skipped_intervals " + Long.toUnsignedString(skipped));
        }
      }
      default -> throw new Refused("no_body: neither a batch nor a closing record");
    }
    return new Accepted(message, null, null, raw.offset(), raw.appended());
  }

  static Accepted counters(RawMessage raw) throws Refused {
    CounterMessage message = parsed(CounterMessage.parser(), CounterMessage.getDescriptor(), raw);
    header(raw, TopicKind.COUNTERS, message.getMajor(), message.getProbe(), message.getWorker());
    interval(message.getIntervalStartMs(), message.getIntervalMs());
    for (Counter counter : message.getCountersList()) {
      if (counter.getSet().length() > MAX_NAME || counter.getLabel().length() > MAX_NAME) {
        throw new Refused("bad_record: a set or label of more than " + MAX_NAME + " characters");
      }
    }
    return new Accepted(null, message, null, raw.offset(), raw.appended());
  }

  /** An alert of an agent, which may only concern its own probe. */
  static AgentAlert alert(RawMessage raw) throws Refused {
    if (raw.value().length > MAX_ALERT) {
      throw new Refused("bad_record: an alert of more than " + MAX_ALERT + " octets");
    }
    Alert alert = parsed(Alert.parser(), Alert.getDescriptor(), raw);
    version(alert.getMajor());
    owner(raw, TopicKind.ALERTS, alert.getProbe());
    if (alert.getId().isEmpty() || alert.getId().length() > MAX_NAME) {
      throw new Refused("bad_record: an id of no or more than " + MAX_NAME + " characters");
    }
    if (!WORD.matcher(alert.getReason()).matches()) {
      throw new Refused("bad_record: a reason that is not in snake case");
    }
    if (alert.getSubject().length() > MAX_NAME) {
      throw new Refused("bad_record: a subject of more than " + MAX_NAME + " characters");
    }
    if (alert.getText().length() > MAX_TEXT) {
      throw new Refused("bad_record: a text of more than " + MAX_TEXT + " characters");
    }
    if (alert.getSeverity() == Severity.UNRECOGNIZED) {
      throw new Refused("bad_record: severity " + alert.getSeverityValue());
    }
    times(alert, RawMessage.came(raw.appended(), System.currentTimeMillis()));
    if (alert.getValuesCount() > MAX_VALUES) {
      throw new Refused("bad_record: more than " + MAX_VALUES + " values");
    }
    evidence(alert);
    for (Map.Entry<String, Double> value : alert.getValuesMap().entrySet()) {
      if (!WORD.matcher(value.getKey()).matches()) {
        throw new Refused("bad_record: the name of a value that is not in snake case");
      }
      if (!(value.getValue() >= 0 && value.getValue() < 0x1p63)) {
        throw new Refused("bad_record: value " + value.getValue());
      }
    }
    return new AgentAlert(alert, raw.offset(), raw.appended());
  }

  /** Checks the evidence of an alert: what an agent may not say is left to the jobs. */
  private static void evidence(Alert alert) throws Refused {
    if (!KIND.matcher(alert.getSubjectKind()).matches()) {
      throw new Refused("bad_record: a kind of subject that is not a short word");
    }
    if (!TECHNIQUE.matcher(alert.getTechnique()).matches()) {
      throw new Refused("bad_record: a technique that is not like T1046 or T1498.001");
    }
    if (alert.getPeersCount() > MAX_EVIDENCE || alert.getPortsCount() > MAX_EVIDENCE) {
      throw new Refused("bad_record: more than " + MAX_EVIDENCE + " peers or ports");
    }
    for (String peer : alert.getPeersMap().keySet()) {
      if (!ADDRESS.matcher(peer).matches()) {
        throw new Refused("bad_record: a peer that is not an address");
      }
    }
    for (double number : new double[] {alert.getScore(), alert.getThreshold()}) {
      if (!(Math.abs(number) < 0x1p63)) {
        throw new Refused("bad_record: a score or threshold of " + number);
      }
    }
    if (alert.getProbesCount() > 0 || !alert.getQuery().isEmpty()) {
      throw new Refused("bad_record: probes or a query, which only the jobs state");
    }
  }

  /** Checks the times of an alert that came at {@code came}; only that of its end may be absent. */
  private static void times(Alert alert, long came) throws Refused {
    long closed = alert.getClosedMs() == 0 ? came : alert.getClosedMs();
    for (long time : new long[] {alert.getOpenedMs(), alert.getUpdatedMs(), closed}) {
      if (time < came - OLDEST_MS || time > came + AHEAD_MS) {
        throw new Refused("bad_record: time " + Long.toUnsignedString(time) + " ms");
      }
    }
  }

  private static <M> M parsed(Parser<M> parser, Descriptor type, RawMessage raw) throws Refused {
    if (raw.value().length == 0) {
      throw new Refused("empty: no octets, or a batch of Kafka that the jobs did not decompress");
    }
    try {
      if (Parts.tooMany(type, raw.value())) {
        throw new Refused("too_many_parts: more than " + Parts.MAX);
      }
      return parser.parseFrom(raw.value());
    } catch (IOException e) {
      throw new Refused("malformed: " + firstSentence(e.getMessage()));
    }
  }

  private static String firstSentence(String text) {
    int end = text.indexOf(". ");
    return end < 0 ? text : text.substring(0, end);
  }

  private static void header(RawMessage raw, TopicKind kind, int major, String probe, int worker)
      throws Refused {
    version(major);
    owner(raw, kind, probe);
    if (worker != raw.partition()) {
      throw new Refused(
          "wrong_worker: " + Integer.toUnsignedString(worker) + " in partition " + raw.partition());
    }
  }

  private static void version(int major) throws Refused {
    if (major != MAJOR) {
      throw new Refused("major: " + Integer.toUnsignedString(major) + ", understood is " + MAJOR);
    }
  }

  private static void owner(RawMessage raw, TopicKind kind, String probe) throws Refused {
    String owner = raw.topic().substring(kind.prefix().length());
    if (!owner.equals(probe)) {
      String named = probe.length() > 63 ? probe.substring(0, 63) + "..." : probe;
      throw new Refused("wrong_probe: " + named + " on the topic of " + owner);
    }
  }

  private static void interval(long start, int length) throws Refused {
    if (!RecordChecks.INTERVALS_MS.contains(length)) {
      throw new Refused("bad_interval: length " + Integer.toUnsignedString(length) + " ms");
    }
    if (start < 0 || start % 1000 != 0 || start / 1000 > 0xffff_ffffL - length / 1000) {
      throw new Refused("bad_interval: start " + Long.toUnsignedString(start) + " ms");
    }
  }

  static void number(String field, int largest, int value) throws Refused {
    if (Integer.compareUnsigned(value, largest) > 0) {
      throw new Refused("bad_record: " + field + " " + Integer.toUnsignedString(value));
    }
  }

  static void address(String field, ByteString address) throws Refused {
    int length = address.size();
    if (length != 4 && length != 16 && length != 0) {
      throw new Refused("bad_record: " + field + " of " + length + " octets");
    }
  }

  static void octets(String field, int longest, ByteString value) throws Refused {
    if (value.size() > longest) {
      throw new Refused("bad_record: " + field + " is too long");
    }
  }
}
