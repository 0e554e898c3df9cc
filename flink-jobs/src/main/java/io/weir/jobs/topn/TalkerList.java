package io.weir.jobs.topn;

import io.weir.jobs.window.FlowCursor;
import io.weir.jobs.window.Listed;

/** A list of the largest by octets, by packets and by flows: {@link TalkerLists} names them all. */
abstract class TalkerList extends Listed {
  /** The values by which an entry gets into a list. */
  enum By {
    OCTETS,
    PACKETS,
    FLOWS
  }

  /** The traffic by whose octets and packets a list is sorted. */
  enum Side {
    RECEIVED("in_%s"),
    SENT("out_%s"),
    BOTH("in_%1$s + out_%1$s");

    private final String sql;

    Side(String sql) {
      this.sql = sql;
    }

    private long value(By by, long[] sums, int at) {
      int in = at + (by == By.OCTETS ? TopnDigester.IN_OCTETS : TopnDigester.IN_PACKETS);
      int out = at + (by == By.OCTETS ? TopnDigester.OUT_OCTETS : TopnDigester.OUT_PACKETS);
      return switch (this) {
        case RECEIVED -> sums[in];
        case SENT -> sums[out];
        case BOTH -> sums[in] + sums[out];
      };
    }
  }

  private static final String OURMON =
      "Ourmon's top talkers and ports (Binkley and Massey, Ourmon and network monitoring performance, 2005)";
  private static final String APPFLOW = "UNINETT's Appflow";

  /** Adds up the traffic of one end of flows. */
  interface Ends {
    /**
     * Adds the flow, seen from one of its ends.
     *
     * @param key to whose sums the end is added
     * @param source whether the end is the source
     * @param counts whether it counts as one more flow
     */
    void add(long key, boolean source, boolean counts);
  }

  private final Side side;

  TalkerList(int id, String name, String group, String comment, String source, Side side) {
    super(id, name, group, comment, source);
    this.side = side;
  }

  /**
   * The value by which the entry whose sums begin at {@code at} is sorted; 0 if it has nothing that
   * the list is about.
   */
  final long value(By by, long[] sums, int at) {
    if (by != By.FLOWS) {
      return side.value(by, sums, at);
    }
    return side.value(By.PACKETS, sums, at) > 0 ? sums[at + TopnDigester.COUNT] : 0;
  }

  /** The list's traffic in plain SQL: a sum of {@code octets} or of {@code packets}. */
  final String sideSql(String unit) {
    return side.sql.formatted(unit);
  }

  /** Hosts by what they received or sent. */
  static final class OfHosts extends TalkerList {
    OfHosts(int id, String name, Side side) {
      super(
          id,
          name,
          "host_in, host_out",
          "hosts by traffic received, sent; in a customer's list its own hosts",
          OURMON,
          side);
    }
  }

  /** Keyed by a number of the flow, or of its ends. */
  abstract static class ByKey extends TalkerList {
    ByKey(int id, String name, String group, String comment, String source) {
      super(id, name, group, comment, source, Side.BOTH);
    }

    /** Adds the flow to the sums of its keys. */
    abstract void add(FlowCursor flow, Ends into);

    /** Whether each customer has such a list of its own flows. */
    boolean isOfCustomers() {
      return true;
    }

    /** The name for the number in {@code t}, the table, in SQL. */
    abstract String nameSql();

    /** Sums by scope and number in plain SQL. */
    abstract String sql();
  }

  /** Ports of services of a protocol. */
  static final class Ports extends ByKey {
    private final int protocol;

    Ports(int id, String name, int protocol) {
      super(
          id,
          name,
          "port_tcp, port_udp",
          "ports of services by traffic both ways: that of the destination, or, if a probe missed the flow's beginning, the registered one, else the lower one",
          OURMON);
      this.protocol = protocol;
    }

    @Override
    void add(FlowCursor flow, Ends into) {
      if (flow.protocol() == protocol && flow.namesPort()) {
        // Traffic to the port counts as incoming, as if the port were an end.
        boolean atSource = flow.isServiceAtSource();
        into.add(flow.port(atSource), atSource || flow.isBack(), true);
      }
    }

    @Override
    String nameSql() {
      return "dictGet('service_names', 'name', (toUInt16(t.number), toUInt8(%d)))"
          .formatted(protocol);
    }

    @Override
    String sql() {
      return """
          SELECT w, scope, probe, customer, '%s' AS list, toIPv6('::'),
                 toUInt64(if(at_source, src_port, dst_port)) AS port, 0,
                 sum(if(at_source, rev_octets, fwd_octets)), sum(if(at_source, rev_packets, fwd_packets)),
                 sum(if(at_source, fwd_octets, rev_octets)), sum(if(at_source, fwd_packets, rev_packets)),
                 uniqExactIf(flow, okey = 0), sumIf(fwd_octets + rev_octets, okey != 0)
          FROM (SELECT *, guess AND service_at_source AS at_source, %s FROM counted
                WHERE protocol = %d AND okey != 3)
          GROUP BY w, scope, probe, customer, port"""
          .formatted(name(), TopTalkers.FLOW, protocol);
    }
  }

  /** Keyed by a number of a flow's end, if known. */
  static final class OfEnds extends ByKey {
    /** Gives the number of an end. */
    interface Owner {
      /** The number, 0 if unknown. */
      int of(FlowCursor flow, boolean source);
    }

    private final Owner owner;
    private final boolean ofCustomers;
    private final String nameSql;
    private final String sql;

    private OfEnds(
        int id, String name, Owner owner, boolean ofCustomers, String nameSql, String sql) {
      super(id, name, "as, customer", "by traffic in and out", APPFLOW);
      this.owner = owner;
      this.ofCustomers = ofCustomers;
      this.nameSql = nameSql;
      this.sql = sql.formatted(TopTalkers.SUMS, TopTalkers.FLOW);
    }

    /** Autonomous systems. */
    static OfEnds systems(int id) {
      return new OfEnds(
          id,
          "as",
          FlowCursor::system,
          true,
          "dictGet('autonomous_system_names', 'name', t.number)",
          """
          SELECT w, scope, probe, of_customer, 'as', toIPv6('::'), toUInt64(host_as) AS system, 0, %s
          FROM (SELECT *, %s FROM ends WHERE host_as != 0) GROUP BY w, scope, probe, of_customer, system""");
    }

    /** Customers. */
    static OfEnds customers(int id) {
      return new OfEnds(
          id,
          "customer",
          FlowCursor::customer,
          false,
          "dictGet('customer_names', 'customer', t.number)",
          """
          SELECT w, scope, probe, toUInt32(0), 'customer', toIPv6('::'), toUInt64(host_customer) AS whom, 0, %s
          FROM (SELECT *, %s FROM ends WHERE host_customer != 0 AND scope != 'customer')
          GROUP BY w, scope, probe, whom""");
    }

    @Override
    void add(FlowCursor flow, Ends into) {
      int src = owner.of(flow, true);
      int dst = owner.of(flow, false);
      if (src != 0) {
        into.add(Integer.toUnsignedLong(src), true, true);
      }
      if (dst != 0) {
        into.add(Integer.toUnsignedLong(dst), false, dst != src);
      }
    }

    @Override
    boolean isOfCustomers() {
      return ofCustomers;
    }

    @Override
    String nameSql() {
      return nameSql;
    }

    @Override
    String sql() {
      return sql;
    }
  }
}
