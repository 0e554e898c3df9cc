package io.weir.jobs.window;

import io.weir.jobs.table.ColumnType;
import java.util.List;
import java.util.function.Function;

/** One column of a {@link WindowTable}, of its view, or of both. */
final class WindowColumn<W, T> {
  final String name;

  /** The type that jobs write; null if only the view has the column. */
  final ColumnType type;

  String sqlType;
  String codec = "";
  final String comment;

  boolean shown = true;
  String viewName;
  String viewType;
  String viewSql;
  String viewComment;

  /** The source of the value: the whole list, or the row's own subject; or null. */
  Function<W, Object> whole;

  Function<T, Object> value;

  /** The expected value in plain SQL; empty if there is none. */
  String check = "";

  boolean isKey;
  List<? extends Listed> values = List.of();

  WindowColumn(String name, ColumnType type, String comment) {
    this.name = name;
    this.type = type;
    this.comment = comment;
    sqlType = type == null ? "" : type.sql();
    viewName = name;
    viewType = sqlType;
    viewSql = "t." + name;
    viewComment = comment;
  }
}
