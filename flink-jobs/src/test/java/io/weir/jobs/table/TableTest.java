package io.weir.jobs.table;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Compares the tables that the jobs write with the migrations that create them. */
class TableTest {
  /** A column of flows that the store fills by its DEFAULT. */
  private static final String BY_STORE = "late_at";

  private static final Pattern COLUMN =
      Pattern.compile(
          "^    ([a-z0-9_]+) +([A-Z][A-Za-z0-9]*(?:\\((?:[^()]|\\([^()]*\\))*\\))?) (?!ALIAS)",
          Pattern.MULTILINE);

  @ParameterizedTest
  @MethodSource("io.weir.jobs.table.Table#all")
  void everyColumnIsDeclaredWithATypeThatTakesIt(Table table) throws IOException {
    Declared declared = declared(table);
    assertTrue(
        declared.sql.contains("non_replicated_deduplication_window"), "or a retry stores twice");
    for (Table.Column column : table.columns()) {
      String type = declared.columns.remove(column.name());
      assertEquals(column.type().sql(), written(String.valueOf(type)), column.name());
    }
    declared.columns.remove(BY_STORE);
    assertEquals(Map.of(), declared.columns, "columns that no job writes");
    boolean daily = Set.of(Table.FLOWS, Table.NAT_EVENTS, Table.AGENT_ALERTS).contains(table);
    String time = table == Table.NAT_EVENTS ? "kept_from" : "ts"; // BatchBlocks says so, too
    String by = (daily ? "toYYYYMMDD(%s)" : "toYYYYMM(%s)").formatted(time);
    assertTrue(declared.sql.contains("PARTITION BY " + by), "partition() must agree");
  }

  /** The type that the jobs write for a column of this type; the server converts. */
  private static String written(String type) {
    if (type.startsWith("Enum8")) {
      return "Int8";
    }
    return type.replace("LowCardinality(String)", "String");
  }

  /** The statement that creates a table, and its columns. */
  private record Declared(String sql, Map<String, String> columns) {}

  /**
   * The net result of the migrations: the last statement that creates the table, as NAME or as
   * NAME_anew to be exchanged with it, and the columns that ALTER TABLE adds after it, one ADD
   * COLUMN per line.
   */
  private static Declared declared(Table table) throws IOException {
    Pattern create =
        Pattern.compile(
            "^CREATE TABLE (?:IF NOT EXISTS )?NAME(?:_anew)?( AS NAME)?\n"
                .replace("NAME", table.sqlName()),
            Pattern.MULTILINE);
    Pattern alter =
        Pattern.compile(
            "^ALTER TABLE " + table.sqlName() + "\n((?:    (?:ADD|MODIFY) COLUMN .*\n?)+)", 8);
    Declared declared = null;
    try (Stream<Path> files = Files.list(Path.of("../clickhouse/migrations"))) {
      for (Path file : files.sorted().toList()) {
        String text = Files.readString(file);
        Matcher creates = create.matcher(text);
        while (creates.find()) {
          int end = text.indexOf(";\n", creates.start()); // a view may follow
          String sql = text.substring(creates.start(), end);
          // AS: with the columns that it has by then, which an ALTER before it may add to.
          declared = new Declared(sql, creates.group(1) == null ? columns(sql) : declared.columns);
        }
        Matcher alters = alter.matcher(text);
        while (alters.find()) {
          String added = alters.group(1).replace("ADD COLUMN IF NOT EXISTS ", "");
          declared.columns.putAll(columns(added));
        }
      }
    }
    if (declared == null) {
      throw new IllegalStateException("no migration makes " + table.sqlName());
    }
    return declared;
  }

  /** Stored columns with their types, from a statement with one column per line. */
  private static Map<String, String> columns(String sql) {
    Map<String, String> columns = new LinkedHashMap<>();
    Matcher matcher = COLUMN.matcher(sql);
    while (matcher.find()) {
      columns.put(matcher.group(1), matcher.group(2));
    }
    return columns;
  }

  @Test
  void partitionsAreDaysOrMonthsInUtc() {
    assertEquals(20260131, Table.FLOWS.partition(1_769_903_999));
    assertEquals(20260201, Table.FLOWS.partition(1_769_904_000));
    assertEquals(202602, Table.LEDGER.partition(1_769_904_000));
  }
}
