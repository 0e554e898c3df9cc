package io.weir.jobs.window;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/**
 * The SQL statements generated from a {@link WindowTable}.
 *
 * @param primary columns of the sorting key that are the primary key
 * @param shownWhere condition on rows of the table {@code t} that selects those in the view
 */
public record Statements(
    String name,
    String comment,
    List<Column> columns,
    List<String> order,
    int primary,
    String view,
    String viewComment,
    String shownWhere) {
  /**
   * A column.
   *
   * @param name empty if only the view has the column
   * @param lists whether it identifies the list of a row
   * @param viewName empty if only the table has the column
   * @param viewSql over {@code t}, the table
   */
  public record Column(
      String name,
      String type,
      String comment,
      String codec,
      boolean lists,
      String viewName,
      String viewType,
      String viewSql,
      String viewComment) {
    /** Whether the view shows the column unchanged. */
    boolean isTables() {
      return viewName.equals(name) && viewType.equals(type) && viewComment.equals(comment);
    }
  }

  /** Makes the table. */
  public String createTable() {
    List<Column> stored = columns.stream().filter(column -> !column.name.isEmpty()).toList();
    int width = stored.stream().mapToInt(column -> column.name.length()).max().orElse(0);
    String lines =
        stored.stream()
            .map(
                column ->
                    "    "
                        + column.name
                        + " ".repeat(width - column.name.length() + 1)
                        + typed(column.type, column.comment)
                        + column.codec)
            .collect(Collectors.joining(",\n"));
    String primaryKey =
        primary == order.size()
            ? ""
            : "PRIMARY KEY (" + String.join(", ", order.subList(0, primary)) + ")\n";
    return """
        CREATE TABLE IF NOT EXISTS %s
        (
        %s
        )
        ENGINE = ReplacingMergeTree(version)
        PARTITION BY toYYYYMM(ts)
        %sORDER BY (%s)
        SETTINGS non_replicated_deduplication_window = 10000
        COMMENT %s;
        """
        .formatted(name, lines, primaryKey, String.join(", ", order), quoted(comment));
  }

  /** Adds the names of all lists to an older table; empty if the table has no lists. */
  public String widenLists() {
    String lines =
        columns.stream()
            .filter(Column::lists)
            .map(
                column ->
                    "    MODIFY COLUMN " + column.name + " " + typed(column.type, column.comment))
            .collect(Collectors.joining(",\n"));
    return lines.isEmpty() ? "" : "ALTER TABLE " + name + "\n" + lines + ";\n";
  }

  /**
   * Creates the view, or replaces an older one. Columns that are the table's or another view's are
   * declared by their names alone, {@code LIKE table (column, ...)}: {@code clickhouse/weir_schema}
   * puts type and comment there.
   *
   * @param views the view that declares a column, by the declaration; those of this view are added
   */
  public String createView(Map<String, String> views) {
    List<Column> seen = columns.stream().filter(column -> !column.viewName.isEmpty()).toList();
    List<String> declared = new ArrayList<>();
    String from = "";
    List<String> like = new ArrayList<>();
    for (Column column : seen) {
      String line = column.viewName + " " + typed(column.viewType, column.viewComment);
      String known = column.isTables() ? name : views.putIfAbsent(line, view);
      if (!from.equals(known)) {
        flush(from, like, declared);
      }
      if (known == null) {
        declared.add("    " + line);
      } else {
        from = known;
        like.add(column.viewName);
      }
    }
    flush(from, like, declared);
    List<String> selected =
        seen.stream().map(column -> column.viewSql + " AS " + column.viewName).toList();
    return """
        CREATE OR REPLACE VIEW %s
        (
        %s
        )
        DEFINER = CURRENT_USER SQL SECURITY DEFINER
        AS SELECT
        %s
        FROM %s AS t FINAL
        WHERE %s
        COMMENT %s;
        """
        .formatted(
            view,
            String.join(",\n", declared),
            wrapped("    ", selected, "    "),
            name,
            shownWhere,
            quoted(viewComment));
  }

  private static void flush(String from, List<String> like, List<String> declared) {
    if (!like.isEmpty()) {
      declared.add(wrapped("    LIKE " + from + " (", like, "        ") + ")");
      like.clear();
    }
  }

  /** The items separated by commas, in lines of some 120 characters. */
  private static String wrapped(String begin, List<String> items, String indent) {
    StringBuilder text = new StringBuilder();
    StringBuilder line = new StringBuilder(begin);
    for (int i = 0; i < items.size(); i++) {
      String item = items.get(i) + (i + 1 < items.size() ? "," : "");
      if (line.length() + item.length() > 118 && !line.toString().isBlank()) {
        text.append(line.toString().stripTrailing()).append('\n');
        line = new StringBuilder(indent);
      }
      line.append(item).append(i + 1 < items.size() ? " " : "");
    }
    return text.append(line).toString();
  }

  private static String typed(String type, String comment) {
    return type + " COMMENT " + quoted(comment);
  }

  private static String quoted(String text) {
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'";
  }
}
