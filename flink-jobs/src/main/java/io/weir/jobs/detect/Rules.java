package io.weir.jobs.detect;

import com.google.protobuf.ByteString;
import io.weir.jobs.message.Addresses;
import io.weir.proto.Rule;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** The rules in force, as of one point in time. */
final class Rules {
  /** What a scope weighs: a longer prefix more than a customer, that more than a probe. */
  private static final int CUSTOMER = 2;

  private static final int PROBE = 1;
  private static final int NO_SCOPE = 0;
  private static final int OUT_OF_SCOPE = -1;

  /** The network of a prefix, IPv4 mapped into IPv6, and the length of that. */
  private record Network(long high, long low, int length) {
    static Network of(String text) {
      int slash = text.indexOf('/');
      int length = Integer.parseInt(text.substring(slash + 1));
      try {
        ByteString octets =
            ByteString.copyFrom(InetAddress.getByName(text.substring(0, slash)).getAddress());
        return new Network(
            Addresses.high(octets),
            Addresses.low(octets),
            octets.size() == 4 ? 96 + length : length);
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

  private record Scoped(Rule rule, List<Network> networks, Limits limits) {}

  private final Map<String, List<Scoped>> byReason = new HashMap<>();
  private final Map<String, Limits> without = new HashMap<>();

  /** The rules for these reasons; of two with an equal scope the first counts. */
  Rules(List<Rule> rules, List<Reason> reasons) {
    for (Reason reason : reasons) {
      without.put(reason.word(), new Limits(reason, Rule.getDefaultInstance()));
      byReason.put(
          reason.word(),
          rules.stream()
              .filter(rule -> rule.getDetector().equals(reason.word()))
              .map(rule -> scoped(rule, reason))
              .toList());
    }
  }

  private static Scoped scoped(Rule rule, Reason reason) {
    List<Network> networks = rule.getPrefixesList().stream().map(Network::of).toList();
    return new Scoped(rule, networks, new Limits(reason, rule));
  }

  /** What counts for a subject that a probe sees. */
  Limits limits(Reason reason, Subject subject, String probe) {
    Limits narrowest = without.get(reason.word());
    int weight = OUT_OF_SCOPE;
    for (Scoped scoped : byReason.get(reason.word())) {
      int found = weight(scoped, subject, probe);
      if (found > weight) {
        weight = found;
        narrowest = scoped.limits;
      }
    }
    return narrowest;
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
