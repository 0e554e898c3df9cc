package io.weir.jobs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.weir.jobs.window.Listed;
import io.weir.jobs.window.WindowTable;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Compares the statements generated from the declarations with the committed ones and with the
 * migrations.
 */
class DefinitionsTest {
  private static final Path STORE = Path.of("../clickhouse");
  private static final Path DETECTORS = Path.of("../stack/weir/detectors.json");
  private static final Path MIGRATIONS = Path.of("../clickhouse/migrations");

  /** A column of a statement: name, then type and comment up to the next one. */
  private static final Pattern COLUMN =
      Pattern.compile("^ {4}(\\w+) +(.+? COMMENT '(?:[^']|'')*')( CODEC\\(.*\\))?,?$", 8);

  static List<WindowTable<?, ?>> tables() {
    return WindowTables.all();
  }

  /** {@code mvn test -Dweir.golden=write} writes the files again. */
  @Test
  void theCommittedStatementsAreThoseOfTheDeclarations() throws IOException {
    if ("write".equals(System.getProperty("weir.golden"))) {
      Definitions.main(new String[] {"sql", STORE.toString()});
    }
    Map<String, String> committed = new TreeMap<>();
    for (String file : Definitions.sql().keySet()) {
      committed.put(file, Files.readString(STORE.resolve(file)));
    }
    assertEquals(new TreeMap<>(Definitions.sql()), committed);
  }

  /** The parameters that {@code weir rules} checks are those of the detectors. */
  @Test
  void theCommandKnowsTheDetectors() throws IOException {
    Golden.check(DETECTORS, List.of(Definitions.detectors().split("\n")));
  }

  @ParameterizedTest
  @MethodSource("tables")
  void theTableIsThatOfTheMigrations(WindowTable<?, ?> table) throws IOException {
    assertSame(migrated(table.table().sqlName()), columns(table.statements().createTable()));
  }

  /**
   * Whether columns are the same in name, type, comment and order. An enumeration of lists may have
   * grown since the migration, through the file in {@code clickhouse/lists}; its earlier names must
   * be unchanged.
   */
  private static void assertSame(List<String> migrated, List<String> declared) {
    assertEquals(
        migrated.stream().map(DefinitionsTest::withoutNames).toList(),
        declared.stream().map(DefinitionsTest::withoutNames).toList());
    for (int i = 0; i < migrated.size(); i++) {
      List<String> names = new ArrayList<>(names(migrated.get(i)));
      names.removeAll(names(declared.get(i)));
      assertEquals(List.of(), names, declared.get(i));
    }
  }

  private static String withoutNames(String column) {
    return column.replaceAll("^(list|dimension) Enum8.*", "$1");
  }

  private static List<String> names(String column) {
    return Pattern.compile("'\\w+' = \\d+")
        .matcher(column)
        .results()
        .map(found -> found.group())
        .toList();
  }

  @Test
  void noTwoListsHaveOneNumberOrName() {
    for (WindowTable<?, ?> table : WindowTables.all()) {
      List<String> names = table.values().stream().map(Listed::name).toList();
      assertEquals(names.size(), new TreeSet<>(names).size(), names::toString);
      table.values().forEach(value -> assertTrue(!value.source().isEmpty(), value.name()));
    }
  }

  @Test
  void theCheckComparesEveryColumnThatAJobWrites() {
    for (WindowTable<?, ?> table : WindowTables.all()) {
      assertTrue(table.compared().size() >= 10, table.view() + ": " + table.compared());
      String last = table.steps().get(table.steps().size() - 1).name();
      assertEquals(table.table().sqlName(), last);
    }
  }

  /** Columns of a table as all migrations leave it: name, type and comment in their order. */
  private static List<String> migrated(String table) throws IOException {
    Map<String, String> columns = new LinkedHashMap<>();
    for (String sql : migrations()) {
      Matcher made =
          Pattern.compile("^CREATE TABLE IF NOT EXISTS " + table + "\n.*?;\n", 8 | 32).matcher(sql);
      while (made.find()) {
        columns.clear();
        for (String column : columns(made.group())) {
          columns.put(column.split(" ", 2)[0], column);
        }
      }
      Matcher altered =
          Pattern.compile("^ALTER TABLE " + table + "\n(.*?);\n", 8 | 32).matcher(sql);
      while (altered.find()) {
        for (String line : altered.group(1).split("\n", -1)) {
          Matcher change =
              Pattern.compile(
                      "^    (?:ADD COLUMN IF NOT EXISTS|MODIFY COLUMN) (.*?)(?: AFTER (\\w+))?,?$")
                  .matcher(line);
          if (change.matches()) {
            List<String> column = columns("    " + change.group(1));
            assertEquals(1, column.size(), line);
            columns = put(columns, column.get(0), change.group(2));
          }
        }
      }
    }
    return List.copyOf(columns.values());
  }

  private static Map<String, String> put(Map<String, String> columns, String column, String after) {
    String name = column.split(" ", 2)[0];
    if (after == null || columns.containsKey(name)) {
      columns.put(name, column);
      return columns;
    }
    Map<String, String> result = new LinkedHashMap<>();
    columns.forEach(
        (key, value) -> {
          result.put(key, value);
          if (key.equals(after)) {
            result.put(name, column);
          }
        });
    return result;
  }

  private static List<String> migrations() throws IOException {
    List<String> texts = new ArrayList<>();
    try (Stream<Path> files = Files.list(MIGRATIONS)) {
      for (Path file : files.sorted().toList()) {
        texts.add(Files.readString(file));
      }
    }
    return texts;
  }

  private static List<String> columns(String sql) {
    List<String> columns = new ArrayList<>();
    Matcher matcher = COLUMN.matcher(sql);
    while (matcher.find()) {
      columns.add(matcher.group(1) + " " + matcher.group(2));
    }
    return columns;
  }
}
