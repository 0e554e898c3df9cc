package io.weir.jobs.table;

import java.util.Arrays;
import java.util.Map;

/**
 * The type of a column, which writes values in ClickHouse's Native format. The server converts to
 * the column's own type where it differs (String to LowCardinality(String), Int8 to Enum8): {@code
 * input_format_native_allow_types_conversion}.
 */
public enum ColumnType {
  BOOL("Bool", 1),
  INT8("Int8", 1),
  UINT8("UInt8", 1),
  UINT16("UInt16", 2),
  UINT32("UInt32", 4),
  UINT64("UInt64", 8),
  INT64("Int64", 8),
  FLOAT64("Float64", 8),
  /** Seconds from 1970. */
  DATE_TIME("DateTime('UTC')", 4),
  /** Milliseconds from 1970. */
  DATE_TIME64("DateTime64(3, 'UTC')", 8),
  /** 16 octets in network order. */
  IPV6("IPv6", 16),
  STRING("String", 0),
  NULLABLE_INT64("Nullable(Int64)", 8),
  /** Map of words to counts. */
  MAP("Map(String, UInt64)", 0),
  ARRAY_UINT64("Array(UInt64)", 0);

  private final String sql;
  private final int width;

  ColumnType(String sql, int width) {
    this.sql = sql;
    this.width = width;
  }

  /**
   * The way to write a column of ClickHouse's type {@code sql}.
   *
   * @throws IllegalArgumentException if the jobs cannot write such a column
   */
  static ColumnType of(String sql) {
    String written =
        sql.startsWith("Enum8(") ? "Int8" : sql.replace("LowCardinality(String)", "String");
    return Arrays.stream(values())
        .filter(type -> type.sql.equals(written))
        .findFirst()
        .orElseThrow(() -> new IllegalArgumentException("no column is written as " + sql));
  }

  /** The kind of its values in memory: types of one kind can replace each other. */
  String kind() {
    return switch (this) {
      case BOOL -> "boolean";
      case FLOAT64 -> "double";
      case IPV6 -> "address";
      case STRING -> "text";
      case MAP -> "map";
      case ARRAY_UINT64 -> "numbers";
      default -> "number";
    };
  }

  /** The value that ClickHouse gives a column that a row lacks. */
  Object initial() {
    return switch (this) {
      case BOOL -> false;
      case FLOAT64 -> 0.0;
      case IPV6 -> new byte[width];
      case STRING -> "";
      case MAP -> Map.of();
      case ARRAY_UINT64 -> new long[0];
      case NULLABLE_INT64 -> null;
      default -> 0L;
    };
  }

  /** Name of the type in the Native format. */
  public String sql() {
    return sql;
  }

  /** Octets of one value, 0 if they vary. */
  public int width() {
    return width;
  }
}
