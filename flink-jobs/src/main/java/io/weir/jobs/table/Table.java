package io.weir.jobs.table;

import static io.weir.jobs.table.ColumnType.*;

import java.time.Instant;
import java.time.LocalDate;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.ServiceLoader;
import java.util.TreeMap;

/**
 * A table that jobs write, as {@code clickhouse/migrations} declares it; a test compares the two.
 * The first column is always {@code ts}, by which a table is partitioned. The tables of windows are
 * declared by their jobs, see {@link Tables}.
 */
public final class Table {
  public static final Table FLOWS = new Table(0, "flows", true, BatchColumns.FLOWS);

  public static final Table NAT_EVENTS = new Table(12, "nat_events", true, BatchColumns.NAT_EVENTS);

  public static final Table INTERFACE_COUNTERS =
      new Table(13, "interface_counters", false, BatchColumns.INTERFACE_COUNTERS);

  public static final Table EXPORTER_NAMES =
      new Table(14, "exporter_names", false, BatchColumns.EXPORTER_NAMES);

  public static final Table COUNTERS =
      monthly(7, "counters")
          .interval()
          .add(STRING, "counter_set", "label")
          .add(UINT64, "packets", "octets")
          .declared();

  public static final Table COUNTER_MEANS =
      monthly(8, "counter_means")
          .add(UINT32, "window_s")
          .add(INT8, "scope")
          .add(STRING, "probe", "counter_set", "label")
          .add(UINT32, "version")
          .add(UINT64, "packets", "octets")
          .add(FLOAT64, "packets_per_second", "octets_per_second")
          .add(FLOAT64, "peak_packets_per_second", "peak_octets_per_second")
          .add(UINT32, "intervals_seen", "intervals_expected")
          .add(UINT32, "probes_reported", "probes_expected")
          .declared();

  public static final Table ALERTS = ofAlerts(9, "alerts", false);

  public static final Table AGENT_ALERTS = ofAlerts(15, "agent_alerts", true);

  public static final Table LEDGER =
      monthly(10, "ledger")
          .interval()
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
          .add(MAP, "exporter_without_sampling_rate", "exporter_refused", "exporter_sampling")
          .add(MAP, "exporter_reports")
          .add(UINT64, "published_nat_events", "published_interface_counters", "published_names")
          .add(UINT64, "received_nat_events", "received_interface_counters", "received_names")
          .add(DATE_TIME64, "updated_at")
          .declared();

  public static final Table AUTONOMOUS_SYSTEMS =
      monthly(11, "autonomous_systems").add(UINT32, "number").add(STRING, "name").declared();

  /** One column. */
  public record Column(String name, ColumnType type) {}

  private final int id;
  private final String name;
  private final boolean daily;
  private final List<Column> columns;
  private final Map<String, Integer> places = new HashMap<>();

  /**
   * Declares a table.
   *
   * @param id by which state and messages between operators name it: never reuse an id
   * @param daily whether a partition is a day, else a month
   */
  public Table(int id, String name, boolean daily, List<Column> columns) {
    this.id = id;
    this.name = name;
    this.daily = daily;
    this.columns = List.copyOf(columns);
    for (Column column : columns) {
      places.put(column.name(), places.size());
    }
  }

  /** All tables, in the order of their ids. */
  public static List<Table> all() {
    return List.copyOf(Registry.BY_ID.values());
  }

  /** The table with this id. */
  public static Table of(int id) {
    return Registry.BY_ID.get(id);
  }

  /** The number by which state and messages between operators name the table. */
  public int id() {
    return id;
  }

  /** Filled on first use, because jobs' tables need this class to declare themselves. */
  private static final class Registry {
    static final Map<Integer, Table> BY_ID = new TreeMap<>();

    static {
      List<Table> tables =
          new ArrayList<>(
              List.of(
                  FLOWS,
                  COUNTERS,
                  COUNTER_MEANS,
                  ALERTS,
                  AGENT_ALERTS,
                  LEDGER,
                  AUTONOMOUS_SYSTEMS,
                  NAT_EVENTS,
                  INTERFACE_COUNTERS,
                  EXPORTER_NAMES));
      ServiceLoader.load(Tables.class, Table.class.getClassLoader())
          .forEach(more -> tables.addAll(more.tables()));
      for (Table table : tables) {
        Table other = BY_ID.put(table.id, table);
        if (other != null) {
          throw new IllegalStateException(table.name + " has the id of " + other.name);
        }
      }
    }
  }

  /** Name of the table. */
  public String sqlName() {
    return name;
  }

  /** The columns in the order of a row's cells. */
  public List<Column> columns() {
    return columns;
  }

  /** Index of a column in {@link #columns()}. */
  public int index(String column) {
    Integer place = places.get(column);
    if (place == null) {
      throw new IllegalArgumentException("no column " + column + " in " + name);
    }
    return place;
  }

  /** Whether there is such a column. */
  boolean has(String column) {
    return places.containsKey(column);
  }

  /** Sets a column of a row; the row has one element per column. */
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

  /** The name in capitals, as state contains it. */
  @Override
  public String toString() {
    return name.toUpperCase(Locale.ROOT);
  }

  private static Table ofAlerts(int id, String name, boolean daily) {
    return new Declaration(id, name, daily)
        .add(DATE_TIME, "ts")
        .add(STRING, "id", "reason", "probe", "subject")
        .add(INT8, "severity")
        .add(DATE_TIME64, "opened_at", "updated_at", "closed_at")
        .add(STRING, "text")
        .add(MAP, "values")
        .add(UINT32, "version")
        .add(STRING, "subject_kind", "technique")
        .add(MAP, "peers")
        .add(ARRAY_UINT64, "ports")
        .add(MAP, "probes")
        .add(FLOAT64, "score", "threshold")
        .add(STRING, "query")
        .declared();
  }

  /** Begins the declaration of a table partitioned by month. */
  private static Declaration monthly(int id, String name) {
    return new Declaration(id, name, false).add(DATE_TIME, "ts");
  }

  private record Declaration(int id, String name, boolean daily, List<Column> columns) {
    Declaration(int id, String name, boolean daily) {
      this(id, name, daily, new ArrayList<>());
    }

    /** The columns of an interval of a worker. */
    Declaration interval() {
      return add(UINT32, "interval_ms").add(STRING, "probe").add(UINT16, "worker");
    }

    Table declared() {
      return new Table(id, name, daily, columns);
    }

    Declaration add(ColumnType type, String... names) {
      for (String column : names) {
        columns.add(new Column(column, type));
      }
      return this;
    }
  }
}
