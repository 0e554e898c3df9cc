package io.weir.jobs.sink;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** The tables that the jobs write against the migrations that make them. */
class TableTest {
  private static final Pattern COLUMN =
      Pattern.compile(
          "^    ([a-z0-9_]+) +([A-Z][A-Za-z0-9]*(?:\\((?:[^()]|\\([^()]*\\))*\\))?)",
          Pattern.MULTILINE);

  @ParameterizedTest
  @EnumSource(Table.class)
  void everyColumnIsDeclaredWithATypeThatTakesIt(Table table) throws IOException {
    String sql = migration(table);
    Map<String, String> declared = new LinkedHashMap<>();
    Matcher matcher = COLUMN.matcher(sql);
    while (matcher.find()) {
      declared.put(matcher.group(1), matcher.group(2));
    }
    declared.putAll(added(table));
    assertTrue(sql.contains("non_replicated_deduplication_window"), "or a retry stores twice");
    for (Table.Column column : table.columns()) {
      String type = declared.remove(column.name());
      assertEquals(column.type().sql(), written(String.valueOf(type)), column.name());
    }
    assertEquals(Map.of(), declared, "columns that no job writes");
    String by = table == Table.FLOWS ? "toYYYYMMDD(ts)" : "toYYYYMM(ts)";
    assertTrue(sql.contains("PARTITION BY " + by), "partition() must agree");
  }

  /** What the jobs write for a column of this type; the server converts. */
  private static String written(String type) {
    if (type.startsWith("Enum8")) {
      return "Int8";
    }
    return type.replace("LowCardinality(String)", "String");
  }

  /** The statement that makes the table. */
  private static String migration(Table table) throws IOException {
    try (Stream<Path> files = Files.list(Path.of("../clickhouse/migrations"))) {
      for (Path file : files.sorted().toList()) {
        String sql = Files.readString(file);
        int from = sql.indexOf("CREATE TABLE IF NOT EXISTS " + table.sqlName() + "\n");
        if (from >= 0) {
          return sql.substring(from, sql.indexOf(";\n", from)); // a view may follow
        }
      }
    }
    throw new IllegalStateException("no migration makes " + table.name().toLowerCase(Locale.ROOT));
  }

  /** Columns that later migrations add: each an ALTER TABLE with one ADD COLUMN a line. */
  private static Map<String, String> added(Table table) throws IOException {
    Map<String, String> columns = new LinkedHashMap<>();
    Pattern alter =
        Pattern.compile("^ALTER TABLE " + table.sqlName() + "\n((?:    ADD COLUMN .*\n?)+)", 8);
    try (Stream<Path> files = Files.list(Path.of("../clickhouse/migrations"))) {
      for (Path file : files.sorted().toList()) {
        Matcher alters = alter.matcher(Files.readString(file));
        while (alters.find()) {
          Matcher column = COLUMN.matcher(alters.group(1).replace("ADD COLUMN IF NOT EXISTS ", ""));
          while (column.find()) {
            columns.put(column.group(1), column.group(2));
          }
        }
      }
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
