package io.weir.jobs.detect;

import io.weir.jobs.message.Addresses;
import io.weir.proto.Rule;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** The rules in force, as of one point in time. */
final class Rules {
  static final Rules NONE = new Rules(List.of());

  /** What a scope weighs: a longer prefix more than a customer, that more than a probe. */
  private static final int CUSTOMER = 2;

  private static final int PROBE = 1;
  private static final int NO_SCOPE = 0;
  private static final int OUT_OF_SCOPE = -1;

  private static final long IPV4_MAPPED = 0xffffL << 32;

  /** The network of a prefix, IPv4 mapped into IPv6, and the length of that. */
  private record Network(long high, long low, int length) {
    static Network of(String text) {
      int slash = text.indexOf('/');
      int length = Integer.parseInt(text.substring(slash + 1));
      try {
        byte[] octets = InetAddress.getByName(text.substring(0, slash)).getAddress();
        ByteBuffer buffer = ByteBuffer.wrap(octets);
        return octets.length == 4
            ? new Network(0, IPV4_MAPPED | Integer.toUnsignedLong(buffer.getInt()), 96 + length)
            : new Network(buffer.getLong(), buffer.getLong(), length);
      } catch (UnknownHostException e) {
        throw new IllegalArgumentException(e); // it was checked when the rule was read
      }
    }

    boolean contains(long otherHigh, long otherLow) {
      return ((high ^ otherHigh) & mask(length)) == 0
          && ((low ^ otherLow) & mask(length - 64)) == 0;
    }

    private static long mask(int bits) {
      return bits <= 0 ? 0 : bits >= 64 ? -1 : -1L << (64 - bits);
    }
  }

  private record Scoped(Rule rule, List<Network> networks) {}

  private final Map<String, List<Scoped>> byDetector = new HashMap<>();

  /** The given rules; of two with an equal scope the first counts. */
  Rules(List<Rule> rules) {
    for (Rule rule : rules) {
      List<Network> networks = rule.getPrefixesList().stream().map(Network::of).toList();
      byDetector
          .computeIfAbsent(rule.getDetector(), key -> new ArrayList<>())
          .add(new Scoped(rule, networks));
    }
  }

  /** What counts for a subject that a probe sees. */
  Limits limits(Reason reason, Subject subject, String probe) {
    Rule narrowest = Rule.getDefaultInstance();
    int weight = OUT_OF_SCOPE;
    for (Scoped scoped : byDetector.getOrDefault(reason.word(), List.of())) {
      int found = weight(scoped, subject, probe);
      if (found > weight) {
        weight = found;
        narrowest = scoped.rule;
      }
    }
    return new Limits(reason, narrowest);
  }

  private static int weight(Scoped scoped, Subject subject, String probe) {
    Rule rule = scoped.rule;
    int weight = NO_SCOPE;
    if (rule.getProbesCount() > 0) {
      if (!rule.getProbesList().contains(probe)) {
        return OUT_OF_SCOPE;
      }
      weight += PROBE;
    }
    if (rule.getPrefixesCount() + rule.getCustomerIdsCount() == 0) {
      return weight;
    }
    if (subject.kind() == Subject.Kind.CUSTOMER) {
      return rule.getCustomerIdsList().contains((int) subject.low())
          ? weight + CUSTOMER
          : OUT_OF_SCOPE;
    }
    int longest =
        scoped.networks.stream()
            .filter(network -> network.contains(subject.high(), subject.low()))
            .mapToInt(network -> network.length - shortest(subject))
            .max()
            .orElse(OUT_OF_SCOPE);
    return longest < 0 ? OUT_OF_SCOPE : weight + CUSTOMER + 2 * (1 + longest);
  }

  /** The bits that all addresses of the subject's version share. */
  private static int shortest(Subject subject) {
    return Addresses.isIpv4(subject.high(), subject.low()) ? 96 : 0;
  }
}
