package io.weir.jobs.indicators;

import io.weir.jobs.window.FlowCursor;
import io.weir.jobs.window.Listed;
import java.util.Arrays;
import java.util.List;
import java.util.function.ToLongFunction;
import java.util.stream.Collectors;

/**
 * A sum over the hosts of a scope, and a column of {@code indicators}; a new one is a constant
 * here, a line in {@link #ALL}, and a migration for its column.
 */
final class Indicator extends Listed {
  static final Indicator HOSTS =
      new Indicator(
          0,
          "hosts",
          "Distinct hosts of the window",
          "Ourmon",
          Indicator::ofAnyHost,
          "countIf(in_flows)");
  static final Indicator REPORT_HOSTS =
      new Indicator(
          1,
          "report_hosts",
          "Distinct hosts with a work weight above 0: the length that the port report would have without its limit",
          "Ourmon's TCP port report",
          host -> host.isReported() ? 1 : 0,
          "countIf(work_weight > 0)");
  static final Indicator WORMS_US =
      new Indicator(
          2,
          "worms_us",
          "Local hosts with a work weight of 40 or more and at least 10 SYNs",
          "Ourmon's worm count; the minimum of 10 SYNs is Weir's",
          host -> host.isWorm() && host.isLocal() ? 1 : 0,
          "countIf(syns >= 10 AND work_weight >= 40 AND local)");
  static final Indicator WORMS_THEM =
      new Indicator(
          3,
          "worms_them",
          "Remote hosts with a work weight of 40 or more and at least 10 SYNs",
          "Ourmon's worm count; the minimum of 10 SYNs is Weir's",
          host -> host.isWorm() && !host.isLocal() ? 1 : 0,
          "countIf(syns >= 10 AND work_weight >= 40 AND NOT local)");
  static final Indicator SCANNERS =
      new Indicator(
          4,
          "scanners",
          "Hosts whose failed first contacts outnumber the answered ones by four or more",
          "Jung and others, 2004: theta0 0.8, theta1 0.2, alpha 0.01, beta 0.99",
          host -> host.lead() >= Indicators.SCANNER ? 1 : 0,
          "countIf(toInt64(not_answered) - toInt64(were_answered) >= %d)"
              .formatted(Indicators.SCANNER));
  static final Indicator FAILED =
      new Indicator(
          5,
          "failed",
          "Destinations that answered none of the SYNs of a host in time, summed over the hosts; judged in this window",
          "Jung and others, 2004",
          host -> host.get(HostStats.FAILED),
          "sum(not_answered)");
  static final Indicator SYN_SENT =
      new Indicator(
              6,
              "syn_sent",
              "SYN packets sent by all hosts",
              "Ourmon",
              host -> host.get(HostStats.SYN_SENT),
              "sum(syns)")
          // Includes SYNs of senders that no record names.
          .overAll(
              flow ->
                  Kind.of(flow.protocol()) == Kind.TCP && !flow.isOneWay()
                      ? flow.synSent(true) + flow.synSent(false)
                      : 0,
              "sumIf(fwd_tcp_syn + rev_tcp_syn, protocol = 6 AND NOT one_way)");
  static final Indicator TCP_PACKETS =
      new Indicator(
          7,
          "tcp_packets",
          "TCP packets of all hosts: each counts for its sender and its receiver",
          "Ourmon",
          HostStats::tcpPackets,
          "sum(tcp)");
  static final Indicator ICMP_ERRORS =
      new Indicator(
          8,
          "icmp_errors",
          "ICMP errors sent by all hosts",
          "Ourmon; RFC 792, RFC 4443",
          host -> host.get(HostStats.ICMP_SENT),
          "sum(icmp_sent)");
  static final Indicator OVERFLOW_PACKETS =
      new Indicator(
          9,
          "overflow_packets",
          "Packets of hosts that came in overflow records",
          "schemas/flow.proto",
          host -> host.get(HostStats.OVERFLOW),
          "sum(overflowed)");
  static final Indicator ONE_WAY_PACKETS =
      new Indicator(
              10,
              "one_way_packets",
              "Packets of probes that see one direction only, left out of the port report",
              "schemas/declarations.proto",
              host -> 0,
              "0")
          .overAll(
              flow -> flow.isOneWay() ? flow.packets() : 0,
              "sumIf(fwd_packets + rev_packets, one_way)");

  /** The registry, in the order of positions in digests. */
  static final List<Indicator> ALL =
      List.of(
          HOSTS,
          REPORT_HOSTS,
          WORMS_US,
          WORMS_THEM,
          SCANNERS,
          FAILED,
          SYN_SENT,
          TCP_PACKETS,
          ICMP_ERRORS,
          OVERFLOW_PACKETS,
          ONE_WAY_PACKETS);

  /** The indicators that are counted by flow, over all hosts. */
  static final Indicator[] BY_FLOWS =
      ALL.stream().filter(one -> one.ofFlow != null).toArray(Indicator[]::new);

  private final ToLongFunction<HostStats> ofHost;
  private final String ofHostSql;
  private ToLongFunction<FlowCursor> ofFlow;
  private String ofFlowSql = "";

  /**
   * Declares an indicator.
   *
   * @param place in digests, which are part of the state: never reuse a place
   * @param ofHost what a host adds
   * @param ofHostSql the same in plain SQL, an aggregate over {@code hosts}
   */
  private Indicator(
      int place,
      String name,
      String comment,
      String source,
      ToLongFunction<HostStats> ofHost,
      String ofHostSql) {
    super(place, name, name, comment, source);
    this.ofHost = ofHost;
    this.ofHostSql = ofHostSql;
  }

  /**
   * Declares the value over all hosts that replaces the sum of the hosts' values.
   *
   * @param of what a flow adds
   * @param sql the same in plain SQL, an aggregate over {@code counted}
   */
  private Indicator overAll(ToLongFunction<FlowCursor> of, String sql) {
    ofFlow = of;
    ofFlowSql = sql;
    return this;
  }

  private static long ofAnyHost(HostStats host) {
    return 1;
  }

  /** Its position in digests. */
  int place() {
    return id();
  }

  /**
   * The amount that a host adds to a scope; scope 0 stands for all hosts.
   *
   * @param inFlows whether the host is an end of a flow in this window; other hosts only have
   *     failed contacts from before
   */
  long of(HostStats host, int scope, boolean inFlows) {
    if (scope == 0 && ofFlow != null) {
      return 0;
    }
    return this == HOSTS && !inFlows ? 0 : ofHost.applyAsLong(host);
  }

  /** The amount that a flow adds over all hosts. */
  long of(FlowCursor flow) {
    return ofFlow.applyAsLong(flow);
  }

  /** In plain SQL, over hosts joined with the sums over flows. */
  String sql() {
    return ofFlow == null
        ? ofHostSql + " AS " + name()
        : "if(whose = 0, any(o.%s_of_flows), %s) AS %s".formatted(name(), ofHostSql, name());
  }

  /** In plain SQL, the sums over flows. */
  static String flowsSql() {
    return Arrays.stream(BY_FLOWS)
        .map(one -> one.ofFlowSql + " AS " + one.name() + "_of_flows")
        .collect(Collectors.joining(", "));
  }
}
