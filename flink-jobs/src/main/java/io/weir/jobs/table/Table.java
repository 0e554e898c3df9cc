package io.weir.jobs.table;

import static io.weir.jobs.table.ColumnType.*;

import java.time.Instant;
import java.time.LocalDate;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.List;

/**
 * The tables that jobs write, as {@code clickhouse/migrations} declares them; a test holds the two
 * against each other. The first column is always {@code ts}, by which a table is partitioned.
 */
public enum Table {
  FLOWS(true, with().addAll(FlowFields.columns())),
  TOP_FLOWS(
      false,
      with()
          .add(DATE_TIME, "ts")
          .add(UINT16, "window_s")
          .add(INT8, "scope")
          .add(STRING, "probe")
          .add(UINT32, "customer")
          .add(INT8, "list")
          .add(UINT16, "rank")
          .add(UINT32, "version")
          .add(IPV6, "src_addr", "dst_addr")
          .add(UINT16, "src_port", "dst_port")
          .add(UINT8, "protocol")
          .add(UINT64, "octets", "packets", "fwd_octets", "fwd_packets", "rev_octets")
          .add(UINT64, "rev_packets", "window_octets", "window_packets", "window_flows")
          .add(UINT64, "overflow_octets", "duplicate_octets", "error_octets")
          .add(UINT32, "probes_reported", "probes_expected")),
  TOP_TALKERS(
      false,
      with()
          .add(DATE_TIME, "ts")
          .add(UINT16, "window_s")
          .add(INT8, "scope")
          .add(STRING, "probe")
          .add(UINT32, "customer")
          .add(INT8, "list")
          .add(UINT16, "rank")
          .add(UINT32, "version")
          .add(IPV6, "addr")
          .add(UINT32, "number")
          .add(UINT64, "octets", "packets", "in_octets", "in_packets", "out_octets", "out_packets")
          .add(UINT64, "flows", "overflow_octets", "window_octets", "window_packets")
          .add(UINT64, "window_keys", "window_overflow_octets", "error_octets")
          .add(UINT32, "probes_reported", "probes_expected")),
  MIXES(
      false,
      with()
          .add(DATE_TIME, "ts")
          .add(UINT32, "window_s")
          .add(INT8, "scope")
          .add(STRING, "probe")
          .add(UINT32, "customer")
          .add(INT8, "dimension", "direction")
          .add(UINT16, "rank")
          .add(UINT32, "version", "number")
          .add(BOOL, "remainder")
          .add(UINT64, "octets", "packets", "flows")
          .add(UINT64, "ipv4_octets", "ipv4_packets", "ipv4_flows")
          .add(UINT64, "ipv6_octets", "ipv6_packets", "ipv6_flows")
          .add(UINT64, "overflow_octets", "direction_octets", "direction_packets")
          .add(UINT64, "direction_flows")
          .add(UINT32, "probes_reported", "probes_expected")),
  PORT_REPORT(
      false,
      with()
          .add(DATE_TIME, "ts")
          .add(UINT16, "window_s")
          .add(INT8, "scope")
          .add(STRING, "probe")
          .add(UINT16, "rank")
          .add(UINT32, "version")
          .add(IPV6, "addr")
          .add(UINT32, "customer")
          .add(BOOL, "local")
          .add(UINT64, "syn_sent", "synack_sent", "fin_sent", "rst_sent")
          .add(UINT64, "syn_recv", "synack_recv", "fin_recv", "rst_recv")
          .add(UINT64, "tcp_packets", "tcp_sent")
          .add(UINT16, "work_weight", "sa_s")
          .add(UINT32, "l3d", "l4d")
          .add(UINT64, "icmp_errors")
          .add(STRING, "flags", "port_signature", "l4s")
          .add(UINT64, "overflow_packets")
          .add(UINT32, "l3d_error", "probes_reported", "probes_expected")),
  TOP_INDICATORS(
      false,
      with()
          .add(DATE_TIME, "ts")
          .add(UINT16, "window_s")
          .add(INT8, "scope")
          .add(STRING, "probe")
          .add(UINT32, "customer")
          .add(INT8, "list")
          .add(UINT16, "rank")
          .add(UINT32, "version")
          .add(IPV6, "addr")
          .add(UINT64, "value", "value_error")
          .add(BOOL, "local")
          .add(UINT64, "syn_sent", "fin_recv", "rst_recv", "tcp_packets")
          .add(UINT16, "work_weight")
          .add(UINT64, "udp_sent", "icmp_errors_sent", "icmp_errors_recv")
          .add(UINT32, "addresses", "ports", "failed", "answered")
          .add(UINT64, "overflow_packets")
          .add(UINT32, "probes_reported", "probes_expected")),
  INDICATORS(
      false,
      with()
          .add(DATE_TIME, "ts")
          .add(UINT16, "window_s")
          .add(INT8, "scope")
          .add(STRING, "probe")
          .add(UINT32, "customer")
          .add(UINT16, "rank")
          .add(UINT32, "version")
          .add(UINT64, "hosts", "report_hosts", "worms_us", "worms_them")
          .add(UINT64, "udp_work_weight")
          .add(IPV6, "udp_work_weight_addr")
          .add(UINT64, "scanners", "failed", "syn_sent", "tcp_packets")
          .add(UINT64, "icmp_errors", "overflow_packets", "one_way_packets")
          .add(UINT32, "probes_reported", "probes_expected")),
  COUNTERS(
      false,
      with()
          .add(DATE_TIME, "ts")
          .add(UINT32, "interval_ms")
          .add(STRING, "probe")
          .add(UINT16, "worker")
          .add(STRING, "counter_set", "label")
          .add(UINT64, "packets", "octets")),
  COUNTER_MEANS(
      false,
      with()
          .add(DATE_TIME, "ts")
          .add(UINT32, "window_s")
          .add(INT8, "scope")
          .add(STRING, "probe", "counter_set", "label")
          .add(UINT32, "version")
          .add(UINT64, "packets", "octets")
          .add(FLOAT64, "packets_per_second", "octets_per_second")
          .add(FLOAT64, "peak_packets_per_second", "peak_octets_per_second")
          .add(UINT32, "intervals_seen", "intervals_expected")
          .add(UINT32, "probes_reported", "probes_expected")),
  ALERTS(
      false,
      with()
          .add(DATE_TIME, "ts")
          .add(STRING, "id", "reason", "probe", "subject")
          .add(INT8, "severity")
          .add(DATE_TIME64, "opened_at", "updated_at", "closed_at")
          .add(STRING, "text")
          .add(MAP, "values")
          .add(UINT32, "version")),
  LEDGER(
      false,
      with()
          .add(DATE_TIME, "ts")
          .add(UINT32, "interval_ms")
          .add(STRING, "probe")
          .add(UINT16, "worker")
          .add(UINT32, "version")
          .add(INT8, "state")
          .add(UINT64, "epoch")
          .add(UINT16, "epochs")
          .add(UINT64, "on_interface_packets", "captured_packets", "captured_octets")
          .add(MAP, "dropped")
          .add(UINT64, "in_ring_packets", "carried_in_packets", "carried_in_octets")
          .add(UINT64, "carried_out_packets", "carried_out_octets")
          .add(UINT64, "flow_packets", "flow_octets", "overflow_packets", "overflow_octets")
          .add(MAP, "not_metered_packets", "not_metered_octets")
          .add(UINT64, "late_packets", "published_batches", "published_records")
          .add(UINT64, "received_batches", "received_records", "received_packets")
          .add(UINT64, "received_octets", "repeated_batches", "missing_batches")
          .add(ARRAY_UINT64, "missing_sequences")
          .add(UINT64, "gap_packets", "interface_packets", "interface_octets")
          .add(NULLABLE_INT64, "clock_offset_us")
          .add(STRING, "agent_version", "source")
          .add(INT64, "time_shift_ms")
          .add(UINT32, "cpu_permille")
          .add(UINT64, "rss_octets", "close_stall_us")
          .add(MAP, "exporter_records", "exporter_lost")
          .add(MAP, "exporter_without_sampling_rate", "exporter_refused")
          .add(DATE_TIME64, "updated_at")),
  AUTONOMOUS_SYSTEMS(false, with().add(DATE_TIME, "ts").add(UINT32, "number").add(STRING, "name"));

  /** One column. */
  public record Column(String name, ColumnType type) {}

  private final boolean daily;

  @SuppressWarnings("ImmutableEnumChecker") // it is a copy that does not change
  private final List<Column> columns;

  Table(boolean daily, Columns columns) {
    this.daily = daily;
    this.columns = List.copyOf(columns.list);
  }

  /** Name of the table. */
  public String sqlName() {
    return name().toLowerCase(java.util.Locale.ROOT);
  }

  /** The columns in the order that rows are given in. */
  public List<Column> columns() {
    return columns;
  }

  /** Place of a column in {@link #columns()}. */
  public int index(String column) {
    for (int i = 0; i < columns.size(); i++) {
      if (columns.get(i).name().equals(column)) {
        return i;
      }
    }
    throw new IllegalArgumentException("no column " + column + " in " + sqlName());
  }

  /** Sets a column of a row, which has a place for each. */
  public void set(Object[] row, String column, Object value) {
    row[index(column)] = value;
  }

  /**
   * Partition that a row with this {@code ts} (seconds from 1970) belongs to: yyyymmdd or yyyymm.
   */
  public int partition(long ts) {
    LocalDate day = LocalDate.ofInstant(Instant.ofEpochSecond(ts), ZoneOffset.UTC);
    int month = day.getYear() * 100 + day.getMonthValue();
    return daily ? month * 100 + day.getDayOfMonth() : month;
  }

  private static Columns with() {
    return new Columns();
  }

  private static final class Columns {
    final List<Column> list = new ArrayList<>();

    Columns addAll(List<FlowFields.Field> fields) {
      fields.forEach(field -> add(field.type(), field.name()));
      return this;
    }

    Columns add(ColumnType type, String... names) {
      for (String name : names) {
        list.add(new Column(name, type));
      }
      return this;
    }
  }
}
