package io.weir.jobs.detect;

import io.weir.jobs.message.Addresses;
import java.util.Comparator;
import java.util.Locale;

/**
 * What an alert is about: a host, a prefix or a customer.
 *
 * @param kind of subject
 * @param high upper half of the address, or 0
 * @param low lower half of the address, or the customer's id
 */
record Subject(Kind kind, long high, long low) implements Comparable<Subject> {
  /** Kinds of subjects; their places are part of the messages. */
  enum Kind {
    HOST,
    /** A /24 of IPv4 or a /48 of IPv6. */
    PREFIX,
    CUSTOMER;

    String word() {
      return name().toLowerCase(Locale.ROOT);
    }
  }

  private static final long LAST_OCTET = 0xffL;
  private static final long BELOW_48 = 0xffffL;

  private static final Comparator<Subject> ORDER =
      Comparator.comparing(Subject::kind)
          .thenComparingLong(Subject::high)
          .thenComparingLong(Subject::low);

  /** Whoever chooses addresses whose hashes are equal makes no map slow: it then compares them. */
  @Override
  public int compareTo(Subject other) {
    return ORDER.compare(this, other);
  }

  static Subject host(long high, long low) {
    return new Subject(Kind.HOST, high, low);
  }

  /** The prefix of a host. */
  static Subject prefix(long high, long low) {
    return Addresses.isIpv4(high, low)
        ? new Subject(Kind.PREFIX, high, low & ~LAST_OCTET)
        : new Subject(Kind.PREFIX, high & ~BELOW_48, 0);
  }

  static Subject customer(int id) {
    return new Subject(Kind.CUSTOMER, 0, Integer.toUnsignedLong(id));
  }

  /** As alerts name it. */
  String text() {
    return switch (kind) {
      case HOST -> Addresses.text(high, low);
      case PREFIX -> Addresses.text(high, low) + (Addresses.isIpv4(high, low) ? "/24" : "/48");
      case CUSTOMER -> Long.toString(low);
    };
  }

  /** As sentences name it. */
  String named() {
    return kind == Kind.CUSTOMER ? "customer " + low : text();
  }

  /** The condition of SQL on the views of flows that the subject is this end of a flow. */
  String sql(boolean source) {
    String end = source ? "src" : "dst";
    return switch (kind) {
      case HOST -> "%s_addr = toIPv6('%s')".formatted(end, text());
      case PREFIX -> "weir_in(%s_addr, '%s')".formatted(end, text());
      case CUSTOMER -> "%s_customer_id = %d".formatted(end, low);
    };
  }
}
