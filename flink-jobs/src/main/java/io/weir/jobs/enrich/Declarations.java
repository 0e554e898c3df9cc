package io.weir.jobs.enrich;

import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.UnknownFieldSet;
import io.weir.proto.Prefix;
import io.weir.proto.Probe;
import io.weir.proto.Rule;
import io.weir.proto.Severity;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;

/**
 * Declarations of prefixes, probes and rules, read message by message from the compacted topics.
 * The newest message of a key counts; an unreadable one changes nothing.
 */
final class Declarations {
  static final String PREFIXES = "weir.prefixes";
  static final String PROBES = "weir.probes";
  static final String RULES = "weir.rules";

  /** Further declarations are refused, so that memory is bounded. */
  static final int MAX_PREFIXES = 1_000_000;

  private static final int MAX_PROBES = 100_000;
  private static final int MAX_RULES = 10_000;
  private static final int MAJOR = 1;

  /** Why a message was refused. */
  enum Cause {
    /** The payload is not the expected protobuf message. */
    MALFORMED,
    /** The schema version is newer than this program's, or missing. */
    MAJOR,
    /** The message does not match its key. */
    WRONG_KEY,
    /** Its prefix is none. */
    BAD_PREFIX,
    /** A rule holds something that is none. */
    BAD_RULE,
    /** The maximum number is already declared. */
    TOO_MANY;

    String word() {
      return name().toLowerCase(Locale.ROOT);
    }
  }

  /** A message is refused. */
  static final class Refused extends Exception {
    private static final long serialVersionUID = 1;

    final Cause reason;

    Refused(Cause reason) {
      super(reason.word(), null, false, false);
      this.reason = reason;
    }
  }

  private final Map<String, Prefix> prefixes = new LinkedHashMap<>();
  private final Map<String, Known.Probe> probes = new HashMap<>();
  private final Map<String, Rule> rules = new HashMap<>();

  /** Processes one message; a null or empty value removes the declaration of that key. */
  void apply(String topic, String key, byte[] value) throws Refused {
    boolean removed = value == null || value.length == 0;
    try {
      switch (topic) {
        case PREFIXES -> {
          if (removed) {
            prefixes.remove(key);
          } else {
            prefix(key, Prefix.parseFrom(value));
          }
        }
        case PROBES -> {
          if (removed) {
            probes.remove(key);
          } else {
            probe(key, Probe.parseFrom(value));
          }
        }
        default -> {
          if (removed) {
            rules.remove(key);
          } else {
            rule(key, Rule.parseFrom(value));
          }
        }
      }
    } catch (InvalidProtocolBufferException e) {
      throw new Refused(Cause.MALFORMED);
    }
  }

  private void prefix(String key, Prefix prefix) throws Refused {
    check(prefix.getMajor() == MAJOR, Cause.MAJOR);
    check(prefix.getPrefix().equals(key), Cause.WRONG_KEY);
    check(Prefixes.check(key), Cause.BAD_PREFIX);
    check(prefixes.size() < MAX_PREFIXES || prefixes.containsKey(key), Cause.TOO_MANY);
    // The jobs do not use names and tags, which would only take memory.
    Prefix.Builder kept = prefix.toBuilder().clearCustomer().clearTags();
    prefixes.put(key, kept.setUnknownFields(UnknownFieldSet.getDefaultInstance()).build());
  }

  private void probe(String key, Probe probe) throws Refused {
    check(probe.getMajor() == MAJOR, Cause.MAJOR);
    check(probe.getName().equals(key), Cause.WRONG_KEY);
    check(probes.size() < MAX_PROBES || probes.containsKey(key), Cause.TOO_MANY);
    probes.put(
        key,
        new Known.Probe(
            probe.getSite(), probe.getRank(), probe.getOneWay(), probe.getPseudonyms()));
  }

  private void rule(String key, Rule rule) throws Refused {
    check(rule.getMajor() == MAJOR, Cause.MAJOR);
    check(rule.getName().equals(key), Cause.WRONG_KEY);
    check(rule.getPrefixesList().stream().allMatch(Prefixes::check), Cause.BAD_PREFIX);
    check(
        rule.getParametersMap().values().stream().allMatch(Double::isFinite)
            && rule.getSeverity() != Severity.UNRECOGNIZED,
        Cause.BAD_RULE);
    check(rules.size() < MAX_RULES || rules.containsKey(key), Cause.TOO_MANY);
    rules.put(key, rule);
  }

  private static void check(boolean good, Cause cause) throws Refused {
    if (!good) {
      throw new Refused(cause);
    }
  }

  Prefixes prefixes() {
    return Prefixes.of(prefixes.values());
  }

  Map<String, Known.Probe> probes() {
    return Map.copyOf(probes);
  }

  /** The rules in the order of their names. */
  List<Rule> rules() {
    return List.copyOf(new TreeMap<>(rules).values());
  }
}
