package io.weir.jobs;

import io.weir.jobs.detect.Detect;
import io.weir.jobs.indicators.Indicators;
import io.weir.jobs.window.Listed;
import io.weir.jobs.window.WindowTable;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.JsonProcessingException;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;

/**
 * Output generated from the declarations of lists, indicators and mixes: {@code json} prints the
 * input of the plain-SQL check, {@code detectors} what rules may say, {@code sql DIR} writes the
 * statements of lists and views into files of {@code clickhouse/}, {@code table NAME} prints the
 * statement for the migration of a new table.
 */
public final class Definitions {
  private static final String NOTE =
      "-- Written by flink-jobs (io.weir.jobs.Definitions) from the declaration of the table; do not edit.\n\n";

  private Definitions() {}

  /** See above. */
  public static void main(String[] arguments) throws IOException {
    if (arguments.length == 1 && arguments[0].equals("json")) {
      System.out.println(json());
    } else if (arguments.length == 1 && arguments[0].equals("detectors")) {
      System.out.println(detectors());
    } else if (arguments.length == 2 && arguments[0].equals("sql")) {
      for (Map.Entry<String, String> file : sql().entrySet()) {
        Path path = Path.of(arguments[1], file.getKey());
        Files.createDirectories(path.getParent());
        Files.writeString(path, file.getValue());
      }
    } else if (arguments.length == 2 && arguments[0].equals("table")) {
      for (WindowTable<?, ?> table : WindowTables.all()) {
        if (table.table().sqlName().equals(arguments[1])) {
          System.out.print(table.statements().createTable());
        }
      }
    } else {
      System.err.println(
          "usage: java -cp weir-flink-jobs.jar io.weir.jobs.Definitions json | detectors | sql DIRECTORY | table NAME");
      System.exit(2);
    }
  }

  /**
   * The statements by file: {@code lists/} adds the names of all lists to the tables of the
   * migrations, {@code views/} creates the views again. Each can be applied at any time.
   */
  static Map<String, String> sql() {
    Map<String, String> files = new LinkedHashMap<>();
    Map<String, String> views = new HashMap<>();
    for (WindowTable<?, ?> table : WindowTables.all()) {
      String name = table.table().sqlName();
      if (!table.statements().widenLists().isEmpty()) {
        files.put("lists/" + name + ".sql", NOTE + table.statements().widenLists());
      }
      files.put("views/" + table.view() + ".sql", NOTE + table.statements().createView(views));
    }
    return files;
  }

  /**
   * The plain-SQL check: for each table its view, its key columns, the compared columns with their
   * expressions, and the steps to them; and the counts that lists add.
   */
  static String json() throws JsonProcessingException {
    Map<String, Object> tables = new LinkedHashMap<>();
    for (WindowTable<?, ?> table : WindowTables.all()) {
      Map<String, Object> one = new LinkedHashMap<>();
      one.put("view", table.view());
      one.put("key", table.key());
      one.put("compared", table.compared());
      one.put(
          "steps", table.steps().stream().map(step -> List.of(step.name(), step.sql())).toList());
      one.put("values", table.values().stream().map(Definitions::value).toList());
      tables.put(table.table().sqlName(), one);
    }
    Map<String, Object> all = new LinkedHashMap<>();
    all.put("tables", tables);
    all.put("host_counts", Indicators.hostCountsSql());
    return new ObjectMapper().writerWithDefaultPrettyPrinter().writeValueAsString(all);
  }

  /** What rules may say of each detector: names, values and bounds of its parameters. */
  static String detectors() throws JsonProcessingException {
    return new ObjectMapper().writerWithDefaultPrettyPrinter().writeValueAsString(Detect.rules());
  }

  private static Map<String, Object> value(Listed value) {
    Map<String, Object> one = new LinkedHashMap<>();
    one.put("id", value.id());
    one.put("name", value.name());
    one.put("comment", value.comment());
    one.put("source", value.source());
    return one;
  }

  /** The part of the reference page that lists the jobs' results on windows. */
  static String markdown() {
    List<String> lines = new ArrayList<>();
    lines.add("## Lists, indicators and mixes\n");
    lines.add(
        "The values that the jobs write for each window, by table; the columns are in [Tables](tables.md). Numbers are those of the enumerations.\n");
    for (WindowTable<?, ?> table : WindowTables.all()) {
      lines.add("### " + table.view() + "\n");
      lines.add(table.comment() + ".\n");
      if (!table.values().isEmpty()) {
        lines.add("| list or dimension | number | what | defined by |\n|---|---|---|---|");
        for (Listed value : table.values()) {
          lines.add(
              "| `%s` | %d | %s | %s |"
                  .formatted(value.name(), value.id(), value.comment(), value.source()));
        }
        lines.add("");
      }
    }
    lines.add("The sums of `v_indicators`:\n");
    lines.add("| column | what | defined by |\n|---|---|---|");
    lines.addAll(Indicators.sums());
    return String.join("\n", lines) + "\n";
  }
}
